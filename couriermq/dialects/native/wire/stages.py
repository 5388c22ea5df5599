"""Messages that are brought first and published later, as an Arrow stream or as JSON."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from couriermq.core import limits
from couriermq.core.errors import BatchTooLarge, Invalid
from couriermq.core.model import Attribute, Draft
from couriermq.core.parsing import UNREADABLE
from couriermq.dialects.native.wire.claims import Number
from couriermq.dialects.native.wire.messages import BYTES, TEXT, NewMessage, draft_of
from couriermq.dialects.native.wire.reading import Order, misfit, read
from couriermq.dialects.native.wire.unpacking import unpacked_size
from couriermq.journal.schema import STAGED_COLUMNS, arrow_schema
from couriermq.web.errors import MalformedRequest, RequestTooLarge

if TYPE_CHECKING:
    import pyarrow as pa

Part = Meta(extra_json_schema={"minItems": 1, "maxItems": limits.STAGE_COUNT})
StageNames = Annotated[list[str], Meta(max_length=limits.PUBLISHED_STAGES)]


class StagedMessages(Order):
    """Messages to keep until they are published."""

    messages: Annotated[list[NewMessage], Part]


class PublicationOrder(Order):
    """Which stages to send, as which number of the series."""

    number: Number
    stages: StageNames = msgspec.field(default_factory=list)
    parts: dict[str, Number] = msgspec.field(default_factory=dict)


class Publication(msgspec.Struct):
    """The newest of a series: it and all with lower numbers have happened, each as a whole and once."""

    series: str
    number: int
    count: int
    published_at: int


STAGED = msgspec.json.Decoder(StagedMessages)
PUBLISH = msgspec.json.Decoder(PublicationOrder)

OTHERS = tuple(name for name, _ in STAGED_COLUMNS if name != "body")

_attributes = msgspec.json.Decoder(dict[str, Attribute])
_TYPES = dict(STAGED_COLUMNS)


def drafts_of_json(body: bytes) -> list[Draft]:
    """Every message of a part; raises what is wrong with the first that is wrong."""
    order = read(STAGED, body)
    return [_draft(index, new) for index, new in enumerate(order.messages)]


def _draft(index: int, new: NewMessage) -> Draft:
    try:
        return draft_of(new, None)
    except Invalid as error:
        raise Invalid(f"message {index}: {error}", field=error.field) from None


def drafts_of_arrow(body: bytes, *, limit: int) -> list[Draft]:
    """The same from columns: `body` is a must, the others may be there; see STAGED_COLUMNS.

    Columns may be compressed, but may not have more than `limit` bytes when they are not.
    """
    import pyarrow as pa  # noqa: PLC0415

    try:
        if unpacked_size(body) > limit:
            raise RequestTooLarge(limit, unpacked=True)
        with pa.ipc.open_stream(pa.py_buffer(body)) as stream:
            text = _check_columns(stream.schema)
            drafts: list[Draft] = []
            for batch in stream:
                batch.validate(full=True)  # whoever sent it may have made it by hand
                if len(drafts) + batch.num_rows > limits.STAGE_COUNT:
                    raise BatchTooLarge(len(drafts) + batch.num_rows, limits.STAGE_COUNT)
                drafts.extend(_drafts(batch, text))
            return drafts
    except (pa.ArrowException, OSError, UnicodeError) as error:  # names of columns are not checked by Arrow
        raise MalformedRequest(f"the body is not an Arrow stream: {error}") from None


def _check_columns(schema: "pa.Schema") -> bool:
    """Whether the body is text."""
    import pyarrow as pa  # noqa: PLC0415

    names = schema.names
    if "body" not in names or not set(names) <= set(_TYPES) or len(set(names)) < len(names):
        raise Invalid("the columns are body and, as wanted, each once, " + ", ".join(_TYPES), field="columns")
    ours = arrow_schema(STAGED_COLUMNS)
    for field in schema:
        allowed = {ours.field(field.name).type} | ({pa.string()} if field.name == "body" else set())
        if field.type not in allowed:
            raise Invalid(f"column {field.name} is {field.type}; it must be {_TYPES[field.name]}", field="columns")
    return bool(schema.field("body").type == pa.string())


def _drafts(batch: "pa.RecordBatch", text: bool) -> Iterator[Draft]:
    columns: dict[str, list[Any]] = {
        name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    nothing: list[None] = [None] * batch.num_rows
    bodies = columns.pop("body")
    kinds = columns.pop("content_type", nothing)
    attributes = columns.pop("attributes", nothing)
    names = tuple(columns)
    rest = zip(*columns.values(), strict=True) if names else [()] * batch.num_rows
    default = TEXT if text else BYTES
    for body, kind, document, values in zip(bodies, kinds, attributes, rest, strict=True):
        if body is None:
            raise Invalid("a body is null", field="body")
        yield Draft(
            body=body.encode() if text else body,
            content_type=kind or default,
            attributes=_read_attributes(document) if document else {},
            **dict(zip(names, values, strict=True)),
        )


def _read_attributes(document: str) -> dict[str, Attribute]:
    try:
        return _attributes.decode(document)
    except msgspec.ValidationError as error:
        raise Invalid(f"attributes: {misfit(error)}", field="attributes") from None
    except UNREADABLE:
        raise Invalid("attributes is not a JSON object", field="attributes") from None
