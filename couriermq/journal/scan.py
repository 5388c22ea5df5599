"""Looking through the journal for selected events."""

from collections.abc import AsyncIterator, Sequence

from couriermq.core.events import Entry
from couriermq.core.jumps import backward, skip
from couriermq.journal.history import History
from couriermq.journal.selection import Selection

CHUNK = 4_000
"""Events that are read at a time; other requests get their turn in between."""


async def chosen(
    history: History, selection: Selection, *, start: int, stop: int, chunk: int = CHUNK
) -> AsyncIterator[tuple[Sequence[Entry], int]]:
    """The selected entries of offsets `start` up to `stop`, some at a time, each time with the offset reached."""
    start = skip(history.jumps, start)
    while start < stop:
        entries = await history.read_events(start=start, limit=min(chunk, stop - start))
        if not entries:
            return
        start = skip(history.jumps, entries[-1].offset + 1)
        yield selection.choose(entries), start


async def last_offset(history: History, selection: Selection, *, start: int, stop: int, count: int) -> int:
    """From which offset on there are `count` selected entries up to `stop`; `start` where there are fewer."""
    while start < stop:
        begin = max(start, backward(history.jumps, stop, CHUNK))
        entries = [one async for some, _ in chosen(history, selection, start=begin, stop=stop) for one in some]
        if len(entries) >= count:
            return entries[-count].offset
        count -= len(entries)
        stop = begin
    return start
