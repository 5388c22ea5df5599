"""A browser that is signed in: a cookie that no script can read, and that only pages of this server can use.

The cookie has a name for each store, because browsers send cookies to every port of a host and people run two
Couriers on one machine. It counts only where the browser says that a page of the same origin has made the request,
and for anything but GET only with the header `Courier-Console`, which no form and no other origin can send.
"""

import re

from couriermq.auth.gate import Gate
from couriermq.auth.principal import Principal
from couriermq.config import Settings
from couriermq.core.errors import Forbidden, Unauthenticated
from couriermq.web.call import Call, Header

MARK = b"courier-console"
SAME = "same-origin"

_LOOKS = re.compile(r"/courier/v1/tenants/[^/]+/(?:operations|exchanges/[^/]+/route)/?")
"""POST requests that can look without changing anything; operations say so in their body."""


class Sessions:
    """Reads and writes the cookie of one store."""

    def __init__(self, gate: Gate, settings: Settings, store_id: str) -> None:
        self.store_id = store_id
        self._gate = gate
        self._settings = settings
        self._name = f"courier_{store_id}"

    def admit(self, call: Call) -> Principal | None:
        """The caller by its cookie, None without one; raises Forbidden where another page may have sent it."""
        session = self.cookie_of(call)
        if session is None or not self._settings.console_enabled:
            return None
        if not is_same_origin(call):
            raise Unauthenticated("the console's cookie counts for pages of this server only; send a token")
        if call.method != "GET":
            require_mark(call)
            if self._settings.console_read_only and not _looks(call):
                raise read_only()
        return self._gate.admit_session(call, session)

    def is_read_only(self, call: Call) -> bool:
        """Whether a caller can only look, because it is a browser and the server says so."""
        return self._settings.console_read_only and call.header(b"authorization") is None

    def cookie_of(self, call: Call) -> str | None:
        name = self._full_name(call)
        for pair in (call.header(b"cookie") or "").split(";"):
            known, _, value = pair.strip().partition("=")
            if known == name and value:
                return value
        return None

    def set_cookie(self, call: Call, session: str) -> Header:
        return self._cookie(call, session)

    def remove_cookie(self, call: Call) -> Header:
        return self._cookie(call, "", "Max-Age=0")

    def _cookie(self, call: Call, value: str, *more: str) -> Header:
        parts = [f"{self._full_name(call)}={value}", "HttpOnly", "SameSite=Strict", "Path=/", *more]
        if self._is_secure(call):
            parts.append("Secure")
        return b"set-cookie", "; ".join(parts).encode()

    def _full_name(self, call: Call) -> str:
        """Browsers take `__Host-` only from this host itself, and only with TLS."""
        return f"__Host-{self._name}" if self._is_secure(call) else self._name

    def _is_secure(self, call: Call) -> bool:
        return self._settings.tls_cert is not None or call.origin.scheme == "https"


def _looks(call: Call) -> bool:
    """The whole path counts: a queue may be called `operations`."""
    return call.method == "POST" and _LOOKS.fullmatch(call.path) is not None


def read_only() -> Forbidden:
    return Forbidden("change", "anything; the setting console_read_only lets browsers look only")


def require_mark(call: Call) -> None:
    """A page of ours has made the request: forms cannot send the header, and other origins must ask before."""
    if call.header(MARK) != "1":
        raise Forbidden("be used by a browser", "without the header `Courier-Console: 1`")


def is_same_origin(call: Call) -> bool:
    """Whether the request is from a page of this server, as far as the browser tells.

    Browsers send `Sec-Fetch-Site` with TLS and on this machine only; elsewhere `Origin` comes with all but GET.
    """
    site, origin = call.header(b"sec-fetch-site"), call.header(b"origin")
    if site is not None:
        return site == SAME
    if origin is None:
        return call.method == "GET"
    host = call.origin.host or call.header(b"host") or ""
    return origin.partition("://")[2].lower() == host.lower() != ""
