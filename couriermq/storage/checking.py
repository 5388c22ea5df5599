"""What damage looks like, the same in every engine."""

import msgspec

from couriermq.core.chronicle import unpack_runs


def commit_finding(expected: int | None, start: int, count: int, blob: bytes) -> str | None:
    """What is wrong with the journal's commit that begins at `start`, where `expected` should; None if nothing is."""
    if expected is not None and start != expected:
        return f"the journal has a gap: offset {expected} is missing, the next is {start}"
    try:
        runs = unpack_runs(blob)
    except msgspec.DecodeError:
        runs = None
    if runs is None or not all(run.is_whole for run in runs):
        return f"the journal cannot be read at offset {start}"
    held = sum(map(len, runs))
    if held != count:
        return f"the journal's commit at offset {start} holds {held} events instead of {count}"
    return None
