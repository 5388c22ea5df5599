"""The fields of a token request: an urlencoded form, a multipart form or a JSON object.

The request is limited to `TOKEN_BYTES` before it is read, because anybody may send one; every parser here is linear.
"""

import math
from collections.abc import Iterable
from urllib.parse import parse_qsl

import msgspec
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from couriermq.dialects.anypoint.limits import EXPIRES_IN_SECONDS
from couriermq.web.call import Call
from couriermq.web.errors import MalformedRequest

FIELD_COUNT = 32
PART_HEADER_COUNT = 8
PART_HEADER_BYTES = 1_024
PLAIN_ENCODINGS = frozenset({"", "7bit", "8bit", "binary"})
MULTIPART = "multipart/"

_OBJECT: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


def read_fields(call: Call) -> dict[str, str]:
    """The text fields of the form; clients differ, and some do not say in which form they send."""
    content_type = call.header(b"content-type") or ""
    kind = content_type.lower()
    if kind.startswith(MULTIPART):
        fields = _once(_read_multipart(content_type, call.body))
    elif "json" in kind or call.body.lstrip()[:1] == b"{":
        document = call.json(_OBJECT)
        check_expires_in(document.get("expires_in"))
        return {name: value for name, value in document.items() if isinstance(value, str)}
    else:
        fields = _once(_read_urlencoded(call.body))
    check_expires_in(fields.get("expires_in"))
    return fields


def check_expires_in(wanted: object) -> None:
    """Refuse a lifetime that is no duration; a sound one is read and ignored, since every token lives for an hour."""
    if wanted is None:
        return
    try:
        seconds = float(wanted) if isinstance(wanted, str | int | float) and wanted is not True else math.nan
    except (ValueError, OverflowError):
        seconds = math.nan
    if not 0 < seconds <= EXPIRES_IN_SECONDS:
        raise MalformedRequest(f"expires_in must be a number of seconds from 1 to {EXPIRES_IN_SECONDS}")


def _once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise MalformedRequest(f"the form has the field {name[:40]!r} more than once")
        fields[name] = value
    return fields


def _read_urlencoded(body: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELD_COUNT)
    except ValueError:
        raise MalformedRequest(
            f"the body must be a form of at most {FIELD_COUNT} fields, in UTF-8 and urlencoded"
        ) from None


def _read_multipart(content_type: str, body: bytes) -> list[tuple[str, str]]:
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise MalformedRequest("a multipart body must be multipart/form-data with a boundary")
    form = _MultipartForm()
    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": form.begin_part,
                "on_header_field": form.header_name,
                "on_header_value": form.header_value,
                "on_header_end": form.end_header,
                "on_part_data": form.data,
                "on_part_end": form.end_part,
                "on_end": form.end,
            },
            max_header_count=PART_HEADER_COUNT,
            max_header_size=PART_HEADER_BYTES,
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise MalformedRequest(f"the multipart form is not well formed: {error}") from None
    if not form.complete:
        raise MalformedRequest("the multipart form is not well formed: its last boundary is missing")
    return form.fields


class _MultipartForm:
    """Collects the fields while the parser reports the parts."""

    def __init__(self) -> None:
        self.fields: list[tuple[str, str]] = []
        self.complete = False
        self.begin_part()

    def begin_part(self) -> None:
        self._headers: dict[str, str] = {}
        self._name, self._value, self._content = b"", b"", bytearray()

    def header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def end_header(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("latin-1").strip()
        self._name = self._value = b""

    def data(self, data: bytes, start: int, end: int) -> None:
        self._content += data[start:end]

    def end_part(self) -> None:
        if len(self.fields) == FIELD_COUNT:
            raise MalformedRequest(f"a form has at most {FIELD_COUNT} fields")
        if self._headers.get("content-type", "").lower().startswith(MULTIPART):
            raise MalformedRequest("a part of the form must not be a multipart body itself")
        if self._headers.get("content-transfer-encoding", "").lower() not in PLAIN_ENCODINGS:
            raise MalformedRequest("a part of the form must not have a Content-Transfer-Encoding of its own")
        _, options = parse_options_header(self._headers.get("content-disposition"))
        try:
            name, value = options.get(b"name", b"").decode(), bytes(self._content).decode()
        except UnicodeDecodeError:
            raise MalformedRequest("the fields of the form must be UTF-8") from None
        if not name:
            raise MalformedRequest("every part of the form needs a Content-Disposition with a name")
        self.fields.append((name, value.strip()))

    def end(self) -> None:
        self.complete = True
