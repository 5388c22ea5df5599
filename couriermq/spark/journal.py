"""The journal over HTTP, as drivers and executors ask for it: offsets as numbers, events as Arrow.

Needs nothing but the standard library and, to read events, pyarrow. A server that restarts in the middle of an answer
is waited for, and the reading goes on behind the last event that came.
"""

import json
import ssl
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from io import BufferedReader
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import quote, urlencode, urlsplit

from couriermq.core.jumps import Jump
from couriermq.core.lanes import lane_named, lane_of
from couriermq.journal.schema import NAMES, REPEATING, conform, journal_schema

if TYPE_CHECKING:
    import pyarrow as pa

PREFIX = "/courier/v1/journal"
TIMEOUT_S = 60.0
PATIENCE_S = 60.0
"""How long a server may be away before a job gives up."""
FIRST_PATIENCE_S = 5.0
"""The same for a job that begins: an address that never answers is probably wrong."""
PAUSE_S = 0.25
ASK_AGAIN = {429, 502, 503, 504}
GONE = 410
NOT_FOUND = 404
READ_BYTES = 1024 * 1024
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
BATCH_ROWS = 16_384
"""Of a record batch: one that fits into a core's cache with what becomes of it is passed on sooner and faster."""
SMALL_REST = 4
"""The part of a piece below which a rest is small."""
MOST_OFFSETS = 1_000_000
"""As many as the server puts into one answer."""
NEXT, AT_END = b"courier-next", b"courier-at-end"
"""Keys of a record batch's metadata."""


class JournalError(Exception):
    """The server refused; its own sentence says why."""


class DataLoss(JournalError):
    """Offsets that were to be read are no longer kept."""


class NotThere(JournalError):
    """The server knows nothing of that name."""


class Unreachable(JournalError):
    """The server was away for longer than the patience of a job."""


class Span(NamedTuple):
    oldest: int
    next: int


class Ends(NamedTuple):
    """What can be read of a lane, as a tenant sees it: positions, which only the server can count with."""

    first: str
    """Where the lane began."""
    oldest: str
    next: str


class Piece(NamedTuple):
    """A range of positions, and how many of the wanted events it has."""

    start: str
    stop: str
    event_count: int


class Wanted(NamedTuple):
    """Which events, and which of their columns, in this order."""

    columns: tuple[str, ...]
    tenant: str | None = None
    queues: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out, so that whole segments will do."""
        return set(self.columns) == set(NAMES) and not (self.tenant or self.queues or self.kinds)

    @property
    def accept(self) -> str:
        return f"{PARQUET}, {ARROW}" if self.is_everything else ARROW

    def query(self) -> list[tuple[str, str]]:
        asked = [] if self.is_everything else [("columns", ",".join(("offset", *self._others)))]
        return asked + self.choice()

    def choice(self) -> list[tuple[str, str]]:
        """Which events, without regard to columns."""
        asked = [("tenant", self.tenant)] if self.tenant else []
        return asked + [("queue", name) for name in self.queues] + [("kind", kind) for kind in self.kinds]

    @property
    def _others(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name != "offset")


class Journal(NamedTuple):
    """Where a journal is and what opens it; small enough to travel to every executor."""

    url: str
    token: str | None = None
    ca_file: str | None = None
    """Whom to trust for https instead of the system's authorities: a file of the machine that asks."""

    # -- numbers ----------------------------------------------------------------------------------------------

    def sees_offsets(self) -> bool:
        """Whether the token is root's, who reads by offsets; any other reads by positions."""
        return isinstance(self.ask("GET", PREFIX)["next"], int)

    def spans(self) -> dict[int, Span]:
        """What can be read of each lane, for root."""
        lanes = self._lanes()
        if any(isinstance(one["next"], str) for one in lanes.values()):
            raise JournalError("this needs root's token: a tenant's credential does not see the journal's offsets")
        return {lane: Span(one["oldest"], one["next"]) for lane, one in lanes.items()}

    def stamp(self) -> str:
        """Which store, and which incarnation of it, this is."""
        answer = self.ask("GET", PREFIX)
        return stamp_of(answer)

    def jumps(self) -> list[Jump]:
        """Where offsets jump, for root."""
        return [Jump(one["end"], one["next"]) for one in self.ask("GET", PREFIX).get("jumps", [])]

    def span(self, lane: int = 0) -> Span:
        return self.spans()[lane]

    def offsets_at(self, at: int) -> dict[int, int]:
        """The offset of each lane's first event of that instant or later."""
        return {lane: one["offset"] for lane, one in self._lanes(f"?at={at}").items()}

    def ends(self) -> dict[int, Ends]:
        """What can be read of each lane, for a tenant."""
        return {lane: Ends(one["first"], one["oldest"], one["next"]) for lane, one in self._lanes().items()}

    def positions_at(self, at: int) -> dict[int, str]:
        """The position of each lane's first event of that instant or later."""
        return {lane: one["offset"] for lane, one in self._lanes(f"?at={at}").items()}

    def _lanes(self, query: str = "") -> dict[int, dict[str, Any]]:
        return {lane_named(one["lane"]): one for one in self.ask("GET", PREFIX + query)["lanes"]}

    def plan(self, start: str, stop: str, rows: int, wanted: Wanted) -> Iterator[Piece]:
        """The range in pieces of `rows` wanted events; the last one ends at `stop`, and may have none."""
        at_end = False
        while not at_end:
            query = urlencode([("from", start), ("to", stop), ("rows", rows), *wanted.choice()])
            answer = self.ask("GET", f"{PREFIX}/plan?{query}")
            yield from (Piece(one["from"], one["to"], one["count"]) for one in answer["partitions"])
            start, at_end = answer["next"], answer["at_end"]

    def find(self, start: str, stop: str, rows: int, wanted: Wanted) -> Piece:
        """The first piece of the range that has `rows` wanted events, or all of the range where it has fewer."""
        begin, count, at_end = start, 0, False
        while not at_end and count < rows:
            asked = [("from", start), ("to", stop), ("rows", rows - count), ("limit", 1), *wanted.choice()]
            answer = self.ask("GET", f"{PREFIX}/plan?{urlencode(asked)}")
            count += sum(one["count"] for one in answer["partitions"])
            start, at_end = answer["next"], answer["at_end"]
        return Piece(begin, start, count)

    def borders(self, start: int, stop: int) -> list[int]:
        """The offsets between the two, which are of one lane, at which segments of the archive end."""
        try:
            found = self.ask("GET", f"{PREFIX}/segments?from={start}&to={stop}")["segments"]
        except NotThere:  # an older server, which does not tell
            return []
        return [one["end"] for one in found if start < one["end"] < stop]

    def advance_cursor(self, name: str, offset: int | str) -> int:
        """Say that everything below `offset` is done with; returns where the cursor stands. Only root may."""
        path = f"{PREFIX}/cursors/{quote(name, safe='')}"
        return int(self.ask("PUT", path, json.dumps({"offset": offset}).encode())["offset"])

    # -- events -----------------------------------------------------------------------------------------------

    def read(self, start: int, stop: int, wanted: Wanted, *, lossy: bool = False) -> Iterator["pa.RecordBatch"]:
        """The wanted events of `start` up to `stop`. What the server no longer has is passed over where the reader is
        `lossy`; else DataLoss is raised."""
        patience = Patience(self.url)
        while start < stop:
            begun = start
            try:
                for batch, following in self._stream(start, stop, wanted):
                    start = max(start, following)
                    if start > begun:
                        patience.renew()
                    if batch is not None:
                        yield batch
                if start == begun:
                    raise OSError(f"the journal ends at offset {start}, before {stop}")
            except DataLoss as error:
                if not lossy:
                    raise
                oldest = self.span(lane_of(start)).oldest
                if oldest <= start:  # another node has answered that, which does not know yet
                    patience.wait(error)
                start = max(start, oldest)
            except (OSError, HTTPException) as error:
                patience.wait(error)

    def _stream(self, start: int, stop: int, wanted: Wanted) -> Iterator[tuple["pa.RecordBatch | None", int]]:
        """One answer: each batch with the offset to go on from, and at last the offset that the answer ends at."""
        import pyarrow as pa  # noqa: PLC0415

        limit = min(stop - start, MOST_OFFSETS)
        query = urlencode([("from", start), ("to", stop), ("limit", limit), *wanted.query()])
        connection, response = self.send("GET", f"{PREFIX}/events?{query}", accept=wanted.accept)
        try:
            if response.headers["content-type"] == PARQUET:
                yield from _of_segment(response, start, wanted)
            else:
                yield from _of_stream(response, wanted)
            yield None, int(response.headers["courier-next"])
        except pa.ArrowInvalid as error:
            raise HTTPException(f"the answer broke off: {error}") from error
        finally:
            connection.close()

    def read_positions(
        self, start: str, stop: str, wanted: Wanted, *, lane: int, lossy: bool = False
    ) -> Iterator["pa.RecordBatch"]:
        """The same between two positions of a lane."""
        patience, at_end = Patience(self.url), False
        while not at_end:
            try:
                for batch, metadata in self._batches(start, stop, wanted):
                    start, at_end = metadata[NEXT].decode(), metadata.get(AT_END) == b"true"
                    patience.renew()
                    if batch.num_rows:
                        yield batch
            except DataLoss as error:
                if not lossy:
                    raise
                patience.wait(error)  # another node may know later than this one
                start = self.ends()[lane].oldest
            except (OSError, HTTPException) as error:
                patience.wait(error)

    def _batches(
        self, start: str, stop: str, wanted: Wanted
    ) -> Iterator[tuple["pa.RecordBatch", Mapping[bytes, bytes]]]:
        """One answer: each batch with its metadata; the last batch has no rows and says whether the range ends."""
        import pyarrow as pa  # noqa: PLC0415

        asked = [("from", start), ("to", stop), ("limit", MOST_OFFSETS), ("columns", ",".join(wanted.columns))]
        path = f"{PREFIX}/events?{urlencode([*asked, *wanted.choice()])}"
        connection, response = self.send("GET", path, accept=ARROW)
        try:
            with pa.ipc.open_stream(BufferedReader(cast(Any, response), READ_BYTES)) as stream:
                yield from stream.iter_batches_with_custom_metadata()
            response.read()
        except pa.ArrowInvalid as error:
            raise HTTPException(f"the answer broke off: {error}") from error
        finally:
            connection.close()

    # -- one request ------------------------------------------------------------------------------------------

    def reach(self) -> dict[str, Any]:
        """Who the server says that this is; raises Unreachable within seconds where nobody answers."""
        return self.ask("GET", "/courier/v1/whoami", patience_s=FIRST_PATIENCE_S)

    def ask(
        self, method: str, path: str, body: bytes | None = None, media: str = JSON, *, patience_s: float = PATIENCE_S
    ) -> dict[str, Any]:
        """The answer, as soon as the server gives one."""
        patience = Patience(self.url, patience_s)
        while True:
            try:
                return self.ask_once(method, path, body, media, timeout_s=min(TIMEOUT_S, patience_s))
            except (OSError, HTTPException) as error:
                patience.wait(error)

    def ask_once(
        self, method: str, path: str, body: bytes | None = None, media: str = JSON, *, timeout_s: float = TIMEOUT_S
    ) -> dict[str, Any]:
        """The answer; raises OSError or HTTPException where there is none, or one that asks for patience."""
        connection, response = self.send(method, path, body, media, timeout_s=timeout_s)
        try:
            return dict(json.loads(response.read() or b"{}"))
        finally:
            connection.close()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        media: str = JSON,
        *,
        accept: str | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """An answer that is good, with its connection; one that asks for patience counts as unreachable."""
        where = urlsplit(self.url)
        connection = self._connect(where.netloc, secure=where.scheme == "https", timeout_s=timeout_s)
        headers = {"Content-Type": media} if body is not None else {}
        if accept is not None:
            headers["Accept"] = accept
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, where.path.rstrip("/") + path, body, headers)
        except ssl.SSLCertVerificationError as error:  # waiting would not help
            raise JournalError(
                f"the certificate of {self.url} is not trusted ({error.verify_message}); name its authority in caFile"
            ) from error
        response = connection.getresponse()
        if response.status < 300:
            return connection, response
        content = response.read()
        connection.close()
        raise _failure(response.status, content)

    def _connect(self, place: str, *, secure: bool, timeout_s: float) -> HTTPConnection:
        if not secure:
            return HTTPConnection(place, timeout=timeout_s)
        try:
            trust = ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise JournalError(f"cannot read the certificates in {self.ca_file}: {error.strerror or error}") from error
        return HTTPSConnection(place, timeout=timeout_s, context=trust)


def _of_stream(response: HTTPResponse, wanted: Wanted) -> Iterator[tuple["pa.RecordBatch", int]]:
    import pyarrow as pa  # noqa: PLC0415

    with pa.ipc.open_stream(BufferedReader(cast(Any, response), READ_BYTES)) as stream:
        for batch in stream:
            last = int(batch.column(0)[-1].as_py())
            yield batch.select(list(wanted.columns)), last + 1
    response.read()  # to its end: an answer that breaks off between two batches must not pass for whole


def _of_segment(response: HTTPResponse, start: int, wanted: Wanted) -> Iterator[tuple["pa.RecordBatch", int]]:
    """Rows of a segment's file, a row group at a time: those from `start` on, up to where the answer ends."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    offset, stop = int(response.headers["courier-first"]), int(response.headers["courier-next"])
    content = pa.BufferReader(response.read())
    metadata = pq.read_metadata(content)
    # What comes again and again is cheapest made into text at the end, from its dictionary.
    repeating = [name for name in REPEATING if name in metadata.schema.names]
    with pq.ParquetFile(content, metadata=metadata, pre_buffer=False, read_dictionary=repeating) as file:
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            begin, end = max(start, offset), min(stop, offset + count)
            if begin < end:
                rows = file.read_row_group(group, use_threads=False).slice(begin - offset, end - begin)
                for batch in conform(rows, journal_schema(wanted.columns)).combine_chunks().to_batches(BATCH_ROWS):
                    yield batch, int(batch.column("offset")[-1].as_py()) + 1
            offset += count


def _failure(status: int, content: bytes) -> Exception:
    try:
        sentence = str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        sentence = f"the server answered {status}, but not as Courier does; is the url right?"
    if status in ASK_AGAIN:
        return OSError(sentence)
    return {GONE: DataLoss, NOT_FOUND: NotThere}.get(status, JournalError)(sentence)


def stamp_of(answer: Mapping[str, Any]) -> str:
    """Which store and incarnation an answer is of, as checkpoints keep it."""
    return f"{answer.get('store', '')}/{answer.get('incarnation', '')}"


class Patience:
    """Waits for a server that is away, up to a point."""

    def __init__(self, url: str, seconds: float = PATIENCE_S) -> None:
        self._url = url
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        self._until = time.monotonic() + self._seconds

    def wait(self, error: Exception) -> None:
        if time.monotonic() > self._until:
            raise Unreachable(f"{self._url} cannot be reached: {error}; is the url right?") from error
        time.sleep(PAUSE_S)


def is_long(start: int, stop: int, step: int) -> bool:
    """Whether so much is worth more than one piece of `step`: a small rest goes along, a task of its own costs more."""
    return stop - start >= step + step // SMALL_REST


def ranges(start: int, stop: int, step: int, borders: Sequence[int] = ()) -> list[tuple[int, int]]:
    """`start` up to `stop` in pieces of about `step`, which end at a border where one is near."""
    pieces: list[tuple[int, int]] = []
    small = step // SMALL_REST
    fit = [border for border in borders if border <= stop - small]  # what is left must be worth a task
    while is_long(start, stop, step):
        end = _nearest(fit, start + step, within=small)
        pieces.append((start, end))
        start = end
    return [*pieces, (start, stop)] if start < stop else pieces


def _nearest(borders: Sequence[int], offset: int, *, within: int) -> int:
    """The border that is nearest to an offset, or the offset itself where none is near."""
    at = bisect_left(borders, offset)
    near = [border for border in borders[max(0, at - 1) : at + 1] if abs(border - offset) < within]
    return min(near, key=lambda border: abs(border - offset), default=offset)
