"""Reading what callers send: bodies, the two words for a name, pages."""

from typing import TypeVar

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.parsing import whole_number
from couriermq.dialects.discue import limits
from couriermq.web.call import Call
from couriermq.web.decoding import decode
from couriermq.web.errors import NotAcceptable, UnsupportedMediaType

T = TypeVar("T")

JSON = "application/json"


def read(decoder: "msgspec.json.Decoder[T]", body: bytes, *, halves: bool = False) -> T:
    """The body as the decoder's type: 400 for what is no JSON, 422 for the wrong JSON; no body is an empty object."""
    return decode(decoder, body if body.strip() else b"{}", misfit=_misfit, halves=halves)


def _misfit(error: msgspec.ValidationError) -> Invalid:
    return Invalid(f"the body does not fit: {error}")


class Named(msgspec.Struct):
    """What has a name: `name` to the older generation, `alias` to the newer."""

    name: str | None = None
    alias: str | None = None

    @property
    def called(self) -> str | None:
        if self.name is not None and self.alias is not None and self.name != self.alias:
            raise Invalid("name and alias are two words for one thing; give one of them", field="alias")
        return self.name if self.alias is None else self.alias


def visible_name(name: str, *, most: int) -> str:
    if not 1 <= len(name) <= most or not name.isprintable():
        raise Invalid(f"a name has 1 to {most} visible characters", field="name")
    return name


def asks_to_reveal(call: Call) -> bool:
    """Whether the caller asks for a secret that is there already; Courier's own parameter."""
    wanted = call.argument("reveal")
    if wanted not in {None, "true", "false"}:
        raise Invalid("reveal must be true or false", field="reveal")
    return wanted == "true"


# -- headers --------------------------------------------------------------------------------------------------


def check_accept(call: Call) -> None:
    accept = call.header(b"accept")
    if accept is None:
        return
    for offer in accept.lower().split(","):
        kind, *parameters = [part.strip() for part in offer.split(";")]
        refused = any(parameter.replace(" ", "") in {"q=0", "q=0.0", "q=0.00", "q=0.000"} for parameter in parameters)
        if kind in {JSON, "application/*", "*/*", ""} and not refused:
            return
    raise NotAcceptable(JSON)


def check_content_type(call: Call) -> None:
    """A body is JSON; one that does not say what it is, is taken for it."""
    given = call.header(b"content-type")
    if call.body and given is not None and given.partition(";")[0].strip().lower() != JSON:
        raise UnsupportedMediaType(JSON)


# -- pages ----------------------------------------------------------------------------------------------------


class PageOrder(msgspec.Struct, frozen=True):
    """Which part of a list is wanted."""

    page: int
    per_page: int

    @property
    def skip(self) -> int:
        return (self.page - 1) * self.per_page


def read_page(call: Call) -> PageOrder:
    """Whoever asks for no page gets as much as a page can hold."""
    page, per_page = call.argument("page"), call.argument("per_page")
    if page is None and per_page is None:
        return PageOrder(1, limits.PER_PAGE_MOST)
    return PageOrder(
        whole("page", page, 1, limits.PAGE_MOST, default=1),
        whole("per_page", per_page, 1, limits.PER_PAGE_MOST, default=limits.PER_PAGE),
    )


def whole(name: str, text: str | None, low: int, high: int, *, default: int) -> int:
    if text is None:
        return default
    number = whole_number(text)
    if number is None or not low <= number <= high:
        raise Invalid(f"{name} is {text[:20]!r}; choose a whole number from {low} to {high}", field=name)
    return number
