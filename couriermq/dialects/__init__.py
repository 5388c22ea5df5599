"""The APIs that Courier speaks: each reads its own wire, asks the broker in our words, and writes its own wire."""
