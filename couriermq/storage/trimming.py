"""What becomes of a journal row that readers no longer need, the same in every engine."""

from collections.abc import Awaitable, Callable

STEP = 500
"""Rows that one transaction looks at."""
LOOKS = 2
"""Steps through the retained rows for each step that trims: what a trim costs does not grow with what waits, and rows
in which nothing waits any more are never more than those in which something does."""
TIDIED = 10
"""As how many steps that trim it counts when rows are looked at without a trim."""
COPIED_BYTES = 256 * 1024
"""Bodies of one row that are copied out; a row in which more waits stays, as that of a large message."""


class Round:
    """One after the other, the retained rows are looked at again; each trim goes on where the last one stopped."""

    def __init__(self) -> None:
        self._after = -1

    @property
    def is_over(self) -> bool:
        """Whether all rows have been looked at."""
        return self._after == -1

    async def go_on(self, step: Callable[[int], Awaitable[tuple[int | None, int]]], *, trimmed: int) -> None:
        """Make LOOKS steps for each of the `trimmed` steps, and more for as long as rows are removed.

        `step` looks at the rows behind a start. It returns the last start that it has looked at, or None at the end,
        and how many rows it has removed.
        """
        left, removed = LOOKS * trimmed, 0
        while left > 0 or removed:
            after, removed = await step(self._after)
            self._after = -1 if after is None else after
            if after is None:
                return
            left -= 1


def is_copied(*, has_packs: bool, single_bytes: int) -> bool:
    """Whether the bodies of the messages that wait in a row are copied out, so that the row can go."""
    return not has_packs and single_bytes <= COPIED_BYTES
