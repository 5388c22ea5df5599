"""One message as each dialect shows it, with commands that do something with it there."""

import shlex
from typing import Any, Protocol, runtime_checkable

import msgspec

from couriermq.core.model import Lease, Message, Queue
from couriermq.web.call import Call

RECEIPT = "<receipt>"
"""Stands where a receiver finds its receipt: looking at a message leases nothing."""
TOKEN = "Authorization: Bearer $COURIER_TOKEN"  # noqa: S105 - the name of a variable


class Command(msgspec.Struct, frozen=True):
    """A line for a shell; the token is the variable COURIER_TOKEN."""

    verb: str
    command: str


class MessageView(msgspec.Struct, frozen=True):
    """The message in a dialect's own JSON."""

    message: msgspec.Raw
    commands: list[Command]


@runtime_checkable
class Showing(Protocol):
    """A dialect that can show a message."""

    name: str

    def show(self, call: Call, queue: Queue, message: Message) -> MessageView: ...


def view_of(shown: Any, *commands: Command) -> MessageView:
    encoded = shown if isinstance(shown, bytes) else msgspec.json.encode(shown)
    return MessageView(msgspec.Raw(encoded), list(commands))


def looked_at(message: Message) -> Lease:
    """The message as if it were leased, for dialects that show no other."""
    return Lease(message, RECEIPT, message.due_at)


def curl(call: Call, verb: str, method: str, path: str, body: Any = None, *, token: str = TOKEN) -> Command:
    """The line for one request; what is not ours is quoted, so that a shell takes it as it is."""
    parts = ["curl"]
    if method != "GET":
        parts += ["-X", method]
    parts += [shlex.quote(call.base_url + path), "-H", f'"{token}"']
    if body is not None:
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(msgspec.json.encode(body).decode())]
    return Command(verb, " ".join(parts))
