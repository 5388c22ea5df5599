"""How large an Arrow stream is once it is unpacked, told without unpacking it.

The columns of a record batch may be compressed, each with its true length before it, and a few kilobytes can promise
gigabytes. Arrow's own reader unpacks a whole batch at once, so the lengths are read here first, from where Arrow's
format puts them: https://arrow.apache.org/docs/format/Columnar.html#recordbatch-message.
"""

from struct import error, unpack_from
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGE_HEADER, BATCH_BUFFERS, BATCH_COMPRESSION = 2, 2, 3
"""Places of fields in Arrow's tables `Message` and `RecordBatch`."""
BUFFER_BYTES = 16
AS_IT_IS = -1
"""The length before a buffer that was not worth compressing."""
SCHEMA, BATCH = "schema", "record batch"


def unpacked_size(body: bytes) -> int:
    """Bytes of all columns of all record batches; raises ArrowInvalid for what is none."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return sum(map(_size_of, pa.ipc.MessageReader.open_stream(pa.py_buffer(body))))
    except error as broken:
        raise pa.ArrowInvalid(f"its messages are broken: {broken}") from None


def _size_of(message: "pa.ipc.Message") -> int:
    if message.type == SCHEMA:
        return 0
    if message.type != BATCH:
        raise error(f"there is a {message.type} among them")
    metadata, columns = memoryview(message.metadata), memoryview(message.body)
    batch = _follow(metadata, _field(metadata, unpack_from("<I", metadata)[0], MESSAGE_HEADER))
    if _field(metadata, batch, BATCH_COMPRESSION) is None:
        return len(columns)
    return sum(_length(columns, offset, length) for offset, length in _buffers(metadata, batch))


def _length(columns: Any, offset: int, length: int) -> int:
    if length == 0:
        return 0
    promised = int(unpack_from("<q", columns, offset)[0])
    if promised < AS_IT_IS:
        raise error("a column says that it is shorter than nothing")
    return length if promised == AS_IT_IS else promised


def _buffers(metadata: Any, batch: int) -> list[tuple[int, int]]:
    """Where each buffer of a batch is in the message's body, and its length there."""
    place = _field(metadata, batch, BATCH_BUFFERS)
    if place is None:
        return []
    start = _follow(metadata, place)
    (count,) = unpack_from("<I", metadata, start)
    return [unpack_from("<qq", metadata, start + 4 + index * BUFFER_BYTES) for index in range(count)]


def _field(metadata: Any, table: int, number: int) -> int | None:
    """Where a field of a table is; its type says what is there. None when the table was written without it."""
    index = table - int(unpack_from("<i", metadata, table)[0])
    (size,) = unpack_from("<H", metadata, index)
    if 4 + 2 * number >= size:
        return None
    (place,) = unpack_from("<H", metadata, index + 4 + 2 * number)
    return table + place if place else None


def _follow(metadata: Any, place: int | None) -> int:
    """Where a table or a vector begins that a field leads to."""
    if place is None:
        raise error("a field is missing that must be there")
    return place + int(unpack_from("<I", metadata, place)[0])
