"""Events with the numbers that a tenant sees, as entries and as columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.disclosure import QUEUE_KINDS, tenant_detail
from couriermq.core.events import Entry
from couriermq.core.model import Json
from couriermq.core.numbers import ERASED, Numbers

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("offset", "kind", "seq")
"""Columns that `show_table` looks at."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Json]).decode


def show_entries(entries: Sequence[Entry], numbers: Numbers) -> Sequence[Entry]:
    """The entries as the caller sees them, in the same order."""
    if numbers.is_plain:
        return entries
    offsets = numbers.offsets([entry.offset for entry in entries])
    seqs = iter(numbers.seqs([entry.event.seq for entry in entries if entry.event.seq is not None]))
    shown = []
    for entry, offset in zip(entries, offsets, strict=True):
        event = entry.event
        event = msgspec.structs.replace(
            event,
            seq=None if event.seq is None else next(seqs),
            message_id=numbers.message_id(event.message_id, event.seq),
            detail=tenant_detail(event.kind, event.detail),
        )
        shown.append(Entry(offset, event))
    return shown


def show_table(table: "pa.Table", numbers: Numbers) -> "pa.Table":
    """The same of a table, of which `COLUMNS` must be there."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    offsets, seqs = table.column("offset").to_pylist(), table.column("seq").to_pylist()
    shown = {"offset": pa.array(numbers.offsets(offsets), pa.int64()), "seq": _show_seqs(seqs, numbers)}
    if "message_id" in table.column_names:
        ids = table.column("message_id")
        if pc.any(pc.starts_with(ids, ERASED)).as_py():
            shown["message_id"] = pa.array(map(numbers.message_id, ids.to_pylist(), seqs), pa.string())
    if "detail" in table.column_names:
        kinds = table.column("kind").to_pylist()
        if not QUEUE_KINDS.isdisjoint(kinds):
            details = zip(kinds, table.column("detail").to_pylist(), strict=True)
            shown["detail"] = pa.array([_show_detail(kind, detail) for kind, detail in details], pa.string())
    for name, column in shown.items():
        table = table.set_column(table.column_names.index(name), name, column)
    return table


def _show_seqs(seqs: Sequence[int | None], numbers: Numbers) -> "pa.Array":
    import pyarrow as pa  # noqa: PLC0415

    images = iter(numbers.seqs([seq for seq in seqs if seq is not None]))
    return pa.array([None if seq is None else next(images) for seq in seqs], pa.int64())


def _show_detail(kind: str, text: str | None) -> str | None:
    if text is None or kind not in QUEUE_KINDS:
        return text
    detail = tenant_detail(kind, _decode(text))
    return None if detail is None else _encode(detail).decode()
