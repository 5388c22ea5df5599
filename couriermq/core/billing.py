"""What a message costs, for those who charge for it: one definition for every place that counts."""

UNIT_BYTES = 100 * 1024
"""A billable unit is so much of a message that was received; a message is at least one."""


def billable_units(size: int) -> int:
    """The units of a message of `size` bytes, each time that it is received."""
    return max(1, -(-size // UNIT_BYTES))
