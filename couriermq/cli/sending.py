"""`courier send`, and what `courier exchanges publish` shares with it: bodies, and how many go at once."""

import base64
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat as again
from pathlib import Path
from typing import IO, Annotated, Any

from cyclopts import Group, Parameter

from couriermq.cli.client import Refused, sentence_of
from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit, Failure, usage
from couriermq.cli.options import Attributes, Duration, Flag, Text, read_attributes
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_count

BATCH_COUNT = 500
BATCH_BYTES = 1024 * 1024
ERRORS_SHOWN = 10
MESSAGE = Group("Message", sort_key=20)
SOURCE = Group("Many messages", sort_key=30)
Json = dict[str, Any]

Destined = Annotated[str, Parameter(help="The name or id of a queue, or of an exchange.", metavar="QUEUE")]
Body = Annotated[Text | None, Parameter(help="The text itself, @FILE for a file, or - for standard input.")]


@Parameter(name="*", group=MESSAGE)
@dataclass(frozen=True, kw_only=True)
class Draft:
    """What a message is besides its body."""

    attribute: Attributes = None
    """A number, true, false, or else a string; may be given again."""

    content_type: Annotated[str | None, Parameter(metavar="TYPE")] = None
    """What the body is; found out by a look at it when not given."""

    id: str | None = None
    """Your own id for the message."""

    delay: Duration | None = None
    """Let it wait this long before it can be received."""

    retention: Duration | None = None
    """Discard it after this long."""

    group: str | None = None
    """The group whose order a fifo queue keeps."""

    dedup_id: str | None = None
    """A fifo queue drops a second message with this within 5 minutes."""

    def document(self, body: bytes) -> Json:
        """The message as the native dialect takes it."""
        named = {
            "content_type": self.content_type or _content_type(body),
            "attributes": read_attributes(self.attribute) or None,
            "id": self.id,
            "delay_ms": self.delay,
            "retention_ms": self.retention,
            "group": self.group,
            "dedup_id": self.dedup_id,
        }
        return _body(body) | {name: value for name, value in named.items() if value is not None}


@Parameter(name="*", group=SOURCE)
@dataclass(frozen=True, kw_only=True)
class Many:
    """How one command line makes many messages."""

    lines: Flag = False
    """Send each line of the input as a message of its own; empty lines are left out."""

    repeat: Annotated[int | None, Parameter(metavar="N")] = None
    """Send the message N times."""

    def check(self, draft: Draft) -> None:
        if self.lines and self.repeat is not None:
            raise usage("--lines and --repeat contradict each other")
        if self.repeat is not None and self.repeat < 1:
            raise usage("--repeat takes a number from 1 on")
        if self.lines and draft.id is not None:
            raise usage("with --lines every message needs an id of its own; leave --id out")


PLAIN = Draft()
ONE = Many()


@dataclass
class Tally:
    """What became of many messages."""

    sent_count: int = 0
    duplicate_count: int = 0
    refused_count: int = 0
    errors: list[str] = field(default_factory=list)
    """The first different reasons."""

    def add(self, result: Json) -> None:
        if "error" in result:
            self.refused_count += 1
            sentence = sentence_of(result["error"])
            if sentence not in self.errors and len(self.errors) < ERRORS_SHOWN:
                self.errors.append(sentence)
        elif result.get("duplicate"):
            self.duplicate_count += 1
        else:
            self.sent_count += 1

    @property
    def words(self) -> str:
        words = f"sent {show_count(self.sent_count, 'message')}"
        if self.duplicate_count:
            words += f", {show_count(self.duplicate_count, 'duplicate')} dropped"
        return words + (f", {self.refused_count:,} refused" if self.refused_count else "")


class Destination:
    """What a message is sent to: the queue of a name or, where there is none, the exchange of that name."""

    def __init__(self, remote: Remote, name: str) -> None:
        self._client = remote.client
        self._path = remote.queue(name, "messages")
        self._exchange_path: str | None = remote.exchange(name, "messages")

    def post(self, document: Json) -> Json:
        try:
            sent: Json = self._client.post(self._path, document)
            return sent
        except Refused as refused:
            if refused.status != 404 or self._exchange_path is None:
                raise
            missing, self._path, self._exchange_path = refused, self._exchange_path, None
        try:
            return self.post(document)
        except Refused as refused:
            raise missing if refused.status == 404 else refused from None


def send(
    queue: Destined, body: Body = None, /, *, draft: Draft = PLAIN, many: Many = ONE, remote: Remote = REMOTE
) -> int:
    """Send one message, or many; returns once they are safe on the server's disk.

    What is sent to an exchange is published to the queues that are bound to it.
    """
    many.check(draft)
    post = Destination(remote, queue).post
    if many == ONE:
        return _send_one(remote, post(draft.document(read_body(body))))
    return send_many(remote, post, body, draft, many)


def _send_one(remote: Remote, sent: Json) -> int:
    if remote.json:
        remote.screen.document(sent)
    elif "queue_count" in sent:
        remote.screen.line(f"published {sent['id']} to {show_count(sent['queue_count'], 'queue')}")
    elif sent["duplicate"]:
        remote.screen.line(f"dropped as a duplicate of {sent['id']} (seq {sent['seq']})")
    else:
        remote.screen.line(f"sent {sent['id']} (seq {sent['seq']})")
    return Exit.OK


def send_many(remote: Remote, post: Callable[[Json], Json], body: str | None, draft: Draft, many: Many) -> int:
    """Send in batches, show how far it got, and say at the end, or when interrupted, what was accepted."""
    tally = Tally()
    try:
        with (
            _documents(body, draft, many) as documents,
            Progress("sending", unit="message", total=many.repeat, json=remote.json) as progress,
        ):
            for batch in batches(documents):
                for result in post({"messages": batch})["results"]:
                    tally.add(result)
                progress.advance(len(batch))
    except (KeyboardInterrupt, Failure):
        if tally.sent_count:
            remote.screen.note(f"{tally.words} before it ended")
        raise
    return _tell(remote, tally)


def _tell(remote: Remote, tally: Tally) -> int:
    if remote.json:
        remote.screen.document(vars(tally))
    else:
        remote.screen.line(tally.words)
        for sentence in tally.errors:
            remote.screen.note(f"refused: {sentence}")
    return Exit.FAILED if tally.refused_count else Exit.OK


@contextmanager
def _documents(body: str | None, draft: Draft, many: Many) -> Iterator[Iterable[Json]]:
    if many.repeat is not None:
        yield again(draft.document(read_body(body)), many.repeat)
        return
    with _open(body) as source:
        yield (draft.document(line) for line in (raw.rstrip(b"\r\n") for raw in source) if line)


def batches(documents: Iterable[Json]) -> Iterator[list[Json]]:
    """Documents in lists that are worth a request each, and none too large for one."""
    batch: list[Json] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.get("body") or document.get("body_base64") or "")
        if len(batch) == BATCH_COUNT or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def read_body(body: str | None) -> bytes:
    """The bytes that an argument means; `@@` starts a text that begins with an at sign."""
    if body is not None and body.startswith("@@"):
        return os.fsencode(body[1:])
    if body is None or body == "-" or body.startswith("@"):
        with _open(body) as source:
            return source.read()
    return os.fsencode(body)


@contextmanager
def _open(body: str | None) -> Iterator[IO[bytes]]:
    if body is not None and body.startswith("@"):
        with _open_file(Path(body[1:])) as file:
            yield file
    elif body == "-" or (body is None and not sys.stdin.isatty()):
        yield sys.stdin.buffer
    elif body is None:
        raise usage("what shall be sent? give a text, @FILE, or - for standard input")
    else:
        raise usage("--lines reads from @FILE or from standard input; a text has no lines to take apart")


def _open_file(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise usage(f"cannot read {path}: {error.strerror}") from None


def _body(body: bytes) -> Json:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _content_type(body: bytes) -> str | None:
    """A JSON object or list is called so; of the rest the server knows text from bytes."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        json.loads(body)
    except ValueError:
        return None
    return "application/json"
