"""What can be wrong with an HTTP request before anybody has understood it; each dialect answers these too."""

from couriermq.core.errors import CourierError


class WireError(CourierError):
    """The request cannot be read or has nowhere to go."""


class NoRoute(WireError):
    def __init__(self, path: str) -> None:
        super().__init__(f"there is nothing at {path}")
        self.path = path


class MethodNotAllowed(WireError):
    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        super().__init__(f"{method} is not possible here; use {', '.join(allowed)}")
        self.allowed = allowed


class MalformedRequest(WireError):
    """The body (or a header, or the query) is not what it must be, such as JSON that does not parse."""


class RequestTooLarge(WireError):
    def __init__(self, limit: int, *, unpacked: bool = False) -> None:
        when = ", once it is unpacked," if unpacked else ""
        super().__init__(f"the request body is larger{when} than the {limit} bytes that are allowed")
        self.limit = limit


class RequestTimeout(WireError):
    def __init__(self) -> None:
        super().__init__("the request took too long to arrive")


class NotAcceptable(WireError):
    def __init__(self, offered: str) -> None:
        super().__init__(f"the answer can only be {offered}")


class UnsupportedMediaType(WireError):
    def __init__(self, wanted: str) -> None:
        super().__init__(f"the request body must be {wanted}")
