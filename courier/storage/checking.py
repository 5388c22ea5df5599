"""What damage looks like, the same in every engine."""

import msgspec


def commit_finding(expected: int | None, start: int, count: int, blob: bytes) -> str | None:
    """What is wrong with the journal's commit that begins at `start`, where `expected` should; None if nothing is."""
    if expected is not None and start != expected:
        return f"the journal has a gap: offset {expected} is missing, the next is {start}"
    try:
        held = len(msgspec.msgpack.decode(blob, type=list[msgspec.Raw]))
    except msgspec.DecodeError:
        return f"the journal cannot be read at offset {start}"
    if held != count:
        return f"the journal's commit at offset {start} holds {held} events instead of {count}"
    return None
