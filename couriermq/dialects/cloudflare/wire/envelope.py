"""The frame around every answer: `{success, errors, messages, result}`, with `result_info` around lists."""

from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.web.call import JSON_TYPE, Header, Reply


class Envelope(msgspec.Struct, kw_only=True):
    success: bool = True
    errors: Sequence[Any] = ()
    messages: Sequence[str] = ()
    result: Any
    result_info: Any = msgspec.UNSET


class Source(msgspec.Struct):
    pointer: str


class Problem(msgspec.Struct):
    code: int
    message: str
    source: Source | msgspec.UnsetType = msgspec.UNSET


class PageInfo(msgspec.Struct):
    page: int
    per_page: int
    count: int
    total_count: int
    total_pages: int


_encode = msgspec.json.Encoder().encode


def ok(result: object) -> Reply:
    return Reply(200, _encode(Envelope(result=result)))


def page(items: Sequence[object], info: PageInfo) -> Reply:
    return Reply(200, _encode(Envelope(result=items, result_info=info)))


def failed(
    status: int,
    code: int,
    message: str,
    *,
    hint: str | None = None,
    pointer: str | None = None,
    headers: Sequence[Header] = (),
) -> Reply:
    source = Source(pointer) if pointer else msgspec.UNSET
    envelope = Envelope(
        result=None, success=False, errors=[Problem(code, message, source)], messages=[hint] if hint else []
    )
    return Reply(status, _encode(envelope), (JSON_TYPE, *headers))
