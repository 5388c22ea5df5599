"""What a failure of the database means: a sentence for callers, the details for the log.

The texts of PostgreSQL and psycopg hold hosts, ports, users and names of tables. Callers are told none of these.
"""

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from couriermq.core.errors import CourierError, Invalid, Unavailable
from couriermq.storage.base import CannotOpen

UNREACHABLE = "the database cannot be reached"
UNKNOWN_OUTCOME = f"{UNREACHABLE}; what was asked may or may not have been done"
RETRY_MS = 1_000
RETRY_SECONDS = 0.5
LOG_SECONDS = 10.0
"""Between two log lines while a database does not come up."""
DETAIL_LENGTH = 500

STATES = {
    "53100": "the database's disk is full; free some space, then try again",
    "53300": "the database has no connection left; raise its max_connections or stop other clients",
    "25006": "the database takes no writes now; it may be changing over",
    "55P03": "the database is busy with another node's work; try again",
}
"""Sentences for values of SQLSTATE."""
PASSING = {"08", "53", "57"}
"""Classes of SQLSTATE that end by themselves: connections, resources, and a server that starts or stops."""
_LOGIN = re.compile(r"authentication|no password|pg_hba|does not exist|not permitted to log in")
_IN_URL = re.compile(r"//[^:/@]*:(.+)@")

log = logging.getLogger(__name__)


def sentence(error: psycopg.Error) -> str:
    """Why the database did not do something, without its address, its users or its tables."""
    state, text = error.sqlstate or "", str(error)
    if state in STATES:
        return STATES[state]
    if state and state[:2] not in PASSING:
        return f"the database refused (SQLSTATE {state}); the server's log says more"
    if isinstance(error, psycopg.ProgrammingError):
        return "the address of the database cannot be read; check `store`"
    if not state and _LOGIN.search(text):
        return "the database refuses the login; check the user, password and database in `store`"
    if "read-only" in text:
        return "the database is read-only: it is a standby, or it is changing over"
    return UNREACHABLE


def refusal(error: psycopg.Error) -> CourierError:
    """What to tell a caller whose request the database did not carry out, as far as anybody can know."""
    state = error.sqlstate or ""
    if isinstance(error, psycopg.DataError) and not state:
        return Invalid("a name must not hold the character NUL", field="name")
    if state not in STATES and (not state or state[:2] in {"08", "57"}):
        return Unavailable(UNKNOWN_OUTCOME, retry_after_ms=RETRY_MS)
    if state not in STATES:
        log.warning("the database refused: %s", detail(error))
    return Unavailable(sentence(error), retry_after_ms=RETRY_MS)


def ends_session(error: psycopg.Error) -> bool:
    """Whether the session is over with the error; libpq learns that a moment later."""
    if error.sqlstate is None:  # libpq's own, but for a value that was refused before anything was sent
        return not isinstance(error, psycopg.DataError)
    return error.diag.severity_nonlocalized in {"FATAL", "PANIC"}


def detail(error: BaseException, url: str = "") -> str:
    """What an operator may read: PostgreSQL's own text in one line, without the password that the URL holds."""
    if isinstance(error, psycopg.ProgrammingError) and not error.sqlstate:
        return sentence(error)  # its text repeats pieces of the address, which may be those of the password
    text = " ".join(str(error).split()) or type(error).__name__
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return text[:DETAIL_LENGTH]


def without_secrets(url: str) -> str:
    """User, host, port and database of an address that libpq can read."""
    parts = {name: str(value) for name, value in conninfo_to_dict(url).items()}
    user = f"{quote(parts['user'], safe='')}@" if "user" in parts else ""
    hosts = [f"[{host}]" if ":" in host else quote(host, safe="") for host in parts.get("host", "").split(",")]
    ports = parts.get("port", "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = [f"{host}:{port}" if port else host for host, port in zip(hosts, ports, strict=False)]
    return f"postgresql://{user}{','.join(places)}/{quote(parts.get('dbname', ''), safe='')}"


def _secrets(url: str) -> list[str]:
    """The password, and its pieces where it has characters that a URL must have escaped."""
    raw = _IN_URL.search(url)
    found = set(re.split(r"[@/:?]", raw[1])) | {raw[1]} if raw else set()
    with contextlib.suppress(psycopg.ProgrammingError):
        found.add(str(conninfo_to_dict(url).get("password") or ""))
    return sorted(filter(None, found), key=len, reverse=True)


def may_pass(error: BaseException | None) -> bool:
    """Whether the same attempt may succeed later: the database starts, stops, changes over, or is out of reach."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate or ""
    if state:
        return state[:2] in PASSING or state in {"25006", "55P03"}
    return isinstance(error, psycopg.OperationalError) and not _LOGIN.search(str(error))


async def open_patiently(attempt: Callable[[], Awaitable[None]], *, url: str, patience_seconds: float) -> None:
    """Open a store, again and again while its database may still come up; raises CannotOpen.

    The log says each time why not, at most every LOG_SECONDS for the same reason.
    """
    time = asyncio.get_running_loop().time
    give_up_at, told, told_at = time() + patience_seconds, "", 0.0
    while True:
        try:
            return await attempt()
        except (psycopg.Error, Unavailable) as error:
            cause = error if isinstance(error, psycopg.Error) else error.__cause__
            reason = detail(cause or error, url)
            left = give_up_at - time()
            if left <= 0 or not may_pass(cause):
                log.warning("the database cannot be opened: %s", reason)
                told = sentence(cause) if isinstance(cause, psycopg.Error) else str(error)
                raise CannotOpen(f"the database cannot be opened: {told}") from error
            if reason != told or time() - told_at >= LOG_SECONDS:
                log.warning("the database cannot be opened yet: %s; trying for another %d seconds", reason, left + 1)
                told, told_at = reason, time()
        await asyncio.sleep(min(RETRY_SECONDS, max(left, 0)))
