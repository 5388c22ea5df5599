"""A queue over HTTP, as a job that consumes it and a job that writes into it ask for it.

Every call can be made again when its answer was lost: a server that restarts is waited for.
"""

import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException
from io import BufferedReader
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from couriermq.spark.journal import READ_BYTES, Journal, NotThere, Patience, Unreachable, stamp_of

if TYPE_CHECKING:
    import pyarrow as pa

HIDDEN = "~"
"""With which the names of queues begin that hold deliveries to listeners."""
_ID = re.compile(r"[A-Za-z0-9-]{21}")
ARROW = "application/vnd.apache.arrow.stream"
PUBLISHING_S = 3600
"""How long a publication may take that the server has not refused."""
PUBLISHING_PAUSE_S = 1.0
"""Between two requests for a publication that goes on, or that a server which is busy has not begun."""

log = logging.getLogger(__name__)


class Epoch(NamedTuple):
    """A job as it was opened: claims up to number `done` are over."""

    number: int
    done: int
    opened_at: int
    stamp: str
    """Of the store, and of its incarnation."""


class Job(NamedTuple):
    """A job on a queue; small enough to travel to every executor."""

    server: Journal
    tenant: str
    queue: str
    name: str

    @property
    def key(self) -> str:
        """Tells jobs apart, as they are named in the options."""
        return "/".join(quote(name, safe="") for name in (self.tenant, self.queue, self.name))

    def open(self) -> Epoch:
        """Shut out whoever acted for the job before."""
        answer = self._ask("POST", "/open")
        return Epoch(answer["epoch"], answer["done"], answer["opened_at"], stamp_of(answer))

    def epoch(self) -> int:
        """The epoch that holds now, whoever has opened it."""
        return int(self._listed().get("epoch", 0))

    def held(self) -> dict[int, int]:
        """How many messages each claim holds that the job has, by its number."""
        return {claim["number"]: claim["count"] for claim in self._listed().get("claims", ())}

    def _listed(self) -> dict[str, Any]:
        """The job in the list of the queue's; empty for one that was never opened."""
        path = f"{_place(self.tenant, 'queues', self.queue)}/jobs"
        jobs: list[dict[str, Any]] = self.server.ask("GET", path)["jobs"]
        return next((job for job in jobs if job["name"] == self.name), {})

    def claim(self, epoch: int, number: int, limit: int, ready_by: int | None) -> int:
        """How many messages the claim holds; the same ones however often it is asked for."""
        order = {"epoch": epoch, "limit": limit, "ready_by": ready_by}
        return int(self._ask("PUT", f"/claims/{number}", order)["count"])

    def ack(self, epoch: int, upto: int) -> None:
        self._ask("POST", "/ack", {"epoch": epoch, "upto": upto})

    def read(
        self, epoch: int, number: int, start: int, stop: int, columns: Sequence[str]
    ) -> Iterator[tuple[int, "pa.RecordBatch"]]:
        """What is left of the positions `start` up to `stop`: batches, each with the position behind it."""
        patience = Patience(self.server.url)
        while start < stop:
            try:
                for batch in self._stream(epoch, number, start, stop, columns):
                    start = int(batch.column(0)[-1].as_py()) + 1
                    patience.renew()
                    yield start, batch.select(list(columns))
                return
            except (OSError, HTTPException) as error:
                patience.wait(error)

    def _stream(
        self, epoch: int, number: int, start: int, stop: int, columns: Sequence[str]
    ) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa  # noqa: PLC0415

        asked = {"epoch": epoch, "from": start, "to": stop, "format": "arrow", "columns": ",".join(columns)}
        connection, response = self.server.send("GET", f"{self._path}/claims/{number}?{urlencode(asked)}")
        try:
            with pa.ipc.open_stream(BufferedReader(cast(Any, response), READ_BYTES)) as stream:
                yield from stream
            response.read()  # to its end: an answer that breaks off between two batches must not pass for whole
        except pa.ArrowInvalid as error:
            raise HTTPException(f"the answer broke off: {error}") from error
        finally:
            connection.close()

    @property
    def _path(self) -> str:
        return f"{_place(self.tenant, 'queues', self.queue)}/jobs/{quote(self.name, safe='')}"

    def _ask(self, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
        return self.server.ask(method, self._path + path, json.dumps(order).encode() if order else None)


class Outlet(NamedTuple):
    """A queue or an exchange to write into."""

    server: Journal
    tenant: str
    kind: str
    """queues or exchanges"""
    name: str

    def stage(self, stage: str, part: int, stream: bytes) -> None:
        """Keep messages, an Arrow stream, until the stage is published."""
        self.server.ask("PUT", f"{self._path}/stages/{stage}/{part}", stream, ARROW)

    def drop(self, stage: str) -> None:
        self.server.ask("DELETE", f"{self._path}/stages/{stage}")

    def publish(self, series: str, number: int, stages: Mapping[str, int]) -> None:
        """Send all that the stages hold, each as many parts as is said, unless the number was published before.

        A large one may take longer than an answer may: the server goes on with it when nobody waits any more. So it is
        asked for until it is there, as long as the server answers.
        """
        order = json.dumps({"number": number, "stages": list(stages), "parts": stages}).encode()
        ends_s = time.monotonic() + PUBLISHING_S
        while True:
            try:
                self.server.ask_once("PUT", f"{self._path}/publications/{series}", order)
                return
            except (OSError, HTTPException) as error:
                if self.published(series) >= number:
                    return
                if time.monotonic() > ends_s:
                    minutes = PUBLISHING_S // 60
                    raise Unreachable(
                        f"publication {number} of series {series!r} has not ended within {minutes} minutes: {error}; it"
                        " may still end. Publishing the same number again sends nothing twice"
                    ) from error
                log.warning("publication %d of series %r goes on: %s", number, series, error)
            time.sleep(PUBLISHING_PAUSE_S)

    def published(self, series: str) -> int:
        """The newest number of the series; -1 before the first."""
        try:
            return int(self.server.ask("GET", f"{self._path}/publications/{series}")["number"])
        except NotThere:
            return -1

    @property
    def _path(self) -> str:
        return _place(self.tenant, self.kind, self.name)


def check_queues(server: Journal, tenant: str | None, names: Sequence[str]) -> None:
    """Raise NotThere for a name that no queue and no exchange has; what was deleted can be named by its id.

    Without a tenant a name may be of any tenant that the token may see.
    """
    for name in names:
        if _ID.fullmatch(name) or name.startswith(HIDDEN):
            continue
        if not any(_is_there(server, one, name) for one in ([tenant] if tenant else _tenants(server))):
            where = f"tenant {tenant!r} has" if tenant else "there is"
            raise NotThere(f"{where} no queue named {name!r}; one that was deleted can be read by its id")


def _tenants(server: Journal) -> Iterator[str]:
    after = ""
    while True:
        page = server.ask("GET", f"/courier/v1/tenants?limit=1000{after}")
        yield from (one["id"] for one in page["tenants"])
        if page["next"] is None:
            return
        after = f"&after={quote(page['next'], safe='')}"


def _is_there(server: Journal, tenant: str, name: str) -> bool:
    for kind in ("queues", "exchanges"):
        try:
            server.ask("GET", _place(tenant, kind, name))
        except NotThere:
            continue
        return True
    return False


def _place(tenant: str, kind: str, name: str) -> str:
    return f"/courier/v1/tenants/{quote(tenant, safe='')}/{kind}/{quote(name, safe='')}"
