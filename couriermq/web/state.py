"""What all connections of a server share: the application, the limits, and the lists of who is here."""

import asyncio
from collections.abc import Iterable
from typing import Protocol

import msgspec

from couriermq.config import Settings
from couriermq.web.asgi import Receive, Scope, Send
from couriermq.web.budget import Budget


class Asgi(Protocol):
    """An application as the connection knows it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long each phase of a connection may take, in seconds."""

    head: float
    body: float
    idle: float
    write: float
    max_connections: int

    @classmethod
    def of(cls, settings: Settings) -> "Deadlines":
        return cls(
            head=settings.header_timeout_ms / 1_000,
            body=settings.body_timeout_ms / 1_000,
            idle=settings.keep_alive_ms / 1_000,
            write=settings.write_timeout_ms / 1_000,
            max_connections=settings.max_connections,
        )


class Guest(Protocol):
    """A connection in any state, as the sweep and the shutdown know it."""

    deadline: float
    write_deadline: float

    def expire(self, now: float) -> None: ...
    def shutdown(self) -> None: ...
    def cut(self) -> None: ...


class ServerState:
    """What all connections of a server have in common."""

    def __init__(self, app: Asgi, deadlines: Deadlines, budget: Budget) -> None:
        self.app = app
        self.deadlines = deadlines
        self.budget = budget
        self.connections: set[Guest] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        return len(self.connections) > self.deadlines.max_connections


def sweep(connections: Iterable[Guest], now: float) -> None:
    """Expire every connection one of whose deadlines has passed."""
    for connection in list(connections):
        if now >= connection.deadline or now >= connection.write_deadline:
            connection.expire(now)
