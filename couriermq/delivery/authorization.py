"""How Courier proves itself to a receiver: a bearer token, a user and password, or OAuth client credentials."""

import asyncio
import base64
import math
from collections.abc import Mapping
from urllib.parse import quote_plus, urlencode

import msgspec

from couriermq.clock import Clock
from couriermq.core.errors import Invalid
from couriermq.core.model import HOUR, SECOND
from couriermq.core.parsing import UNREADABLE
from couriermq.delivery.client import Client
from couriermq.delivery.connection import RequestFailed
from couriermq.delivery.guard import Guard, Refused
from couriermq.delivery.headers import USER_AGENT, is_sendable

FIELDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "bearer": (frozenset({"token"}), frozenset()),
    "basic": (frozenset({"username", "password"}), frozenset()),
    "oauth": (frozenset({"token_url", "client_id", "client_secret"}), frozenset({"scope", "audience"})),
}
"""For each type what it needs and what it may have."""

TOKEN_SECONDS = 10.0
EARLY_MS = 30 * SECOND
DEFAULT_LIFE_MS = HOUR
MOST_TOKENS = 10_000
LONGEST_LIFE_SECONDS = 86_400.0
"""A token is asked for anew after a day, even if its issuer promises more."""


class _Grant(msgspec.Struct):
    """What a token endpoint answers."""

    access_token: str
    expires_in: float | None = None


_grant = msgspec.json.Decoder(_Grant, strict=False)


class _Token(msgspec.Struct, frozen=True):
    value: str
    renew_at: int


def check_authorization(authorization: Mapping[str, str] | None, guard: Guard, *, tenant: str) -> None:
    """Raise Invalid where a listener's authorization could not work."""
    if authorization is None:
        return
    kind = authorization.get("type", "")
    if kind not in FIELDS:
        raise Invalid(f"the type of authorization is one of {', '.join(FIELDS)}", field="authorization.type")
    needed, optional = FIELDS[kind]
    for name in sorted(needed - set(authorization)):
        raise Invalid(f"{kind} authorization needs {name}", field=f"authorization.{name}")
    for name in sorted(set(authorization) - needed - optional - {"type"}):
        raise Invalid(f"{kind} authorization has no {name}", field=f"authorization.{name}")
    if kind == "bearer" and not is_sendable(authorization["token"]):
        raise Invalid("the token cannot be sent in a header", field="authorization.token")
    if kind == "oauth":
        guard.check_url(authorization["token_url"], tenant=tenant, field="authorization.token_url")


class Authorizer:
    """Knows the value of the Authorization header for each listener; OAuth tokens are kept until they grow old."""

    def __init__(self, client: Client, guard: Guard, clock: Clock) -> None:
        self._client = client
        self._guard = guard
        self._clock = clock
        self._tokens: dict[tuple[str, ...], _Token] = {}
        self._asking: dict[tuple[str, ...], asyncio.Task[_Token]] = {}

    @staticmethod
    def at_once(authorization: Mapping[str, str] | None) -> str | None:
        """The header where it takes no asking."""
        match authorization:
            case {"type": "bearer", "token": token}:
                return f"Bearer {token}"
            case {"type": "basic", "username": user, "password": password}:
                return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        return None

    async def header(self, authorization: Mapping[str, str], *, tenant: str) -> str | None:
        """The header, fetching a token where one is needed; raises RequestFailed or Refused."""
        if authorization["type"] != "oauth":
            return self.at_once(authorization)
        key = _key(authorization, tenant)
        token = self._tokens.get(key)
        if token is None or token.renew_at <= self._clock.now():
            token = await self._ask_once(key, authorization, tenant)
        return f"Bearer {token.value}"

    def forget(self, authorization: Mapping[str, str], *, tenant: str) -> None:
        """The receiver did not accept the token."""
        self._tokens.pop(_key(authorization, tenant), None)

    async def _ask_once(self, key: tuple[str, ...], authorization: Mapping[str, str], tenant: str) -> _Token:
        """Many deliveries that need the same token share one request for it."""
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(authorization, tenant))
            task.add_done_callback(lambda done: self._asking.pop(key, None))
        token = await asyncio.shield(task)
        self._tokens[key] = token
        if len(self._tokens) > MOST_TOKENS:
            del self._tokens[next(iter(self._tokens))]
        return token

    async def _ask(self, authorization: Mapping[str, str], tenant: str) -> _Token:
        target = self._guard.check_url(authorization["token_url"], tenant=tenant)
        body = _form(authorization)
        head = (
            f"POST {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nUser-Agent: {USER_AGENT}\r\n"
            f"Authorization: Basic {_client_credentials(authorization)}\r\nAccept: application/json\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                response = await self._client.request(target, head.encode("ascii"), body)
        except TimeoutError:
            raise RequestFailed(f"no token: {target.host} did not answer in time") from None
        except (RequestFailed, Refused) as error:
            raise RequestFailed(f"no token: {error}") from None
        return self._read(response.status, response.body)

    def _read(self, status: int, body: bytes) -> _Token:
        if status != 200:
            raise RequestFailed(f"no token: the token URL answered {status}")
        try:
            grant = _grant.decode(body)
        except UNREADABLE:
            raise RequestFailed("no token: the token URL's answer has no access_token") from None
        if not is_sendable(grant.access_token):
            raise RequestFailed("no token: the access_token cannot be sent in a header")
        life_ms = _life_ms(grant.expires_in)
        return _Token(grant.access_token, self._clock.now() + max(life_ms - EARLY_MS, life_ms // 2))


def _life_ms(expires_in: float | None) -> int:
    """How long a token is used, within bounds whatever the issuer says."""
    if expires_in is None or math.isnan(expires_in):
        return DEFAULT_LIFE_MS
    return round(min(max(expires_in, 0.0), LONGEST_LIFE_SECONDS) * SECOND)


def _key(authorization: Mapping[str, str], tenant: str) -> tuple[str, ...]:
    return tenant, *(f"{name}={value}" for name, value in sorted(authorization.items()))


def _client_credentials(authorization: Mapping[str, str]) -> str:
    pair = f"{quote_plus(authorization['client_id'])}:{quote_plus(authorization['client_secret'])}"
    return base64.b64encode(pair.encode()).decode()


def _form(authorization: Mapping[str, str]) -> bytes:
    wishes = {name: authorization[name] for name in ("scope", "audience") if name in authorization}
    return urlencode({"grant_type": "client_credentials", **wishes}).encode()
