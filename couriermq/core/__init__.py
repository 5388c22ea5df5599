"""The rules of the queue as pure code: no clock, no randomness, no I/O."""
