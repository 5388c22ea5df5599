"""What becomes of a journal row that readers no longer need, the same in every engine."""

STEP = 500
"""Rows that one transaction looks at."""
COPIED_BYTES = 256 * 1024
"""Bodies of one row that are copied out; a row in which more waits stays, as that of a large message."""


def is_copied(*, has_packs: bool, single_bytes: int) -> bool:
    """Whether the bodies of the messages that wait in a row are copied out, so that the row can go."""
    return not has_packs and single_bytes <= COPIED_BYTES
