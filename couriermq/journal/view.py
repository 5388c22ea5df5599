"""What one reader may see of the journal: of which queues the events, and of which of those the content."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.disclosure import shown_detail
from couriermq.core.events import Entry, target_of
from couriermq.core.model import Json

if TYPE_CHECKING:
    import pyarrow as pa

Judge = Callable[[str | None, str | None], bool]
"""Whether something is allowed on the queue or exchange of this id, which had this name when the event happened."""

COLUMNS = ("kind", "queue_id", "queue")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Json]).decode


class View:
    """Asks each question once for each queue."""

    def __init__(self, *, sees: Judge, reads: Judge, credentials: bool) -> None:
        self._sees, self._reads = _remembered(sees), _remembered(reads)
        self._credentials = credentials

    def show(self, entries: Sequence[Entry], *, arrivals: bool = False) -> list[Entry]:
        """The entries that the reader may see, with as much of each as it may.

        With `arrivals`, a message that comes into a queue that the reader may see is shown although the reader may not
        see the queue that it comes from; that one is left out.
        """
        shown = []
        for entry in entries:
            if self._sees(entry.event.queue_id, entry.event.queue):
                shown.append(self._shown(entry))
            elif arrivals and (target := target_of(entry.event)) is not None and self._sees(*target):
                shown.append(self._shown(_from_elsewhere(entry)))
        return shown

    def _shown(self, entry: Entry) -> Entry:
        event = entry.event
        content = self._reads(event.queue_id, event.queue)
        detail = shown_detail(event.kind, event.detail, content=content, credentials=self._credentials)
        if detail is event.detail:
            return entry
        return Entry(entry.offset, msgspec.structs.replace(event, detail=detail))

    def filter(self, table: "pa.Table") -> "pa.Table":
        """The same for columns, of which `COLUMNS` must be there."""
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.compute as pc  # noqa: PLC0415

        table = table.filter(pa.array(self._judged(table, self._sees), pa.bool_()))
        reads = self._judged(table, self._reads)
        if "body" in table.column_names:
            bodies = pc.if_else(pa.array(reads, pa.bool_()), table.column("body"), pa.scalar(None, pa.binary()))
            table = table.set_column(table.column_names.index("body"), "body", bodies)
        if "detail" in table.column_names:
            details = pa.array(self._details(table, reads), pa.string())
            table = table.set_column(table.column_names.index("detail"), "detail", details)
        return table

    def _judged(self, table: "pa.Table", judge: Judge) -> list[bool]:
        return list(map(judge, table.column("queue_id").to_pylist(), table.column("queue").to_pylist()))

    def _details(self, table: "pa.Table", reads: Sequence[bool]) -> list[str | None]:
        """Details repeat from row to row, so each is judged once."""
        known: dict[tuple[str, str | None, bool], str | None] = {}
        shown = []
        for key in zip(table.column("kind").to_pylist(), table.column("detail").to_pylist(), reads, strict=True):
            if key not in known:
                known[key] = self._detail(*key)
            shown.append(known[key])
        return shown

    def _detail(self, kind: str, text: str | None, content: bool) -> str | None:
        if text is None:
            return None
        detail = shown_detail(kind, _decode(text), content=content, credentials=self._credentials)
        return None if detail is None else _encode(detail).decode()


def _from_elsewhere(entry: Entry) -> Entry:
    return Entry(entry.offset, msgspec.structs.replace(entry.event, queue_id=None, queue=None))


def _remembered(judge: Judge) -> Judge:
    known: dict[tuple[str | None, str | None], bool] = {}

    def ask(queue_id: str | None, queue: str | None) -> bool:
        answer = known.get((queue_id, queue))
        if answer is None:
            answer = known[queue_id, queue] = judge(queue_id, queue)
        return answer

    return ask
