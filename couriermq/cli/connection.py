"""The options that every command which talks to a server shares."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from couriermq.cli.client import Client, Json, Query, route
from couriermq.cli.options import Flag, SecretText, read_secret_file
from couriermq.cli.screen import Screen

CONNECTION = Group("Connection", sort_key=90)
DEFAULT_URL = "http://127.0.0.1:8080"
DEFAULT_TENANT = "default"
PAGE = 1_000
OUTPUT = Group("Output", sort_key=80)

Output = Annotated[Flag, Parameter(group=OUTPUT, help="Print JSON for programs instead of text for people.")]


def token_of_file() -> str | None:
    """The token that COURIER_TOKEN_FILE leads to, for when no other is given."""
    path = os.environ.get("COURIER_TOKEN_FILE")
    return read_secret_file(Path(path)) if path else None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Server:
    """Which server, as whom, and how to print what it says."""

    url: Annotated[str, Parameter(env_var="COURIER_URL", group=CONNECTION)] = DEFAULT_URL
    """The server's address."""

    token: Annotated[SecretText | None, Parameter(env_var="COURIER_TOKEN", group=CONNECTION)] = None
    """The root token or a credential's secret; - reads it from standard input, @FILE from a file."""

    ca_file: Annotated[str | None, Parameter(group=CONNECTION, metavar="FILE")] = None
    """The certificates to trust for https, where the system's do not do."""

    json: Output = False

    @cached_property
    def client(self) -> Client:
        return self.connect()

    def connect(self) -> Client:
        """A client with a connection of its own."""
        return Client(self.url or DEFAULT_URL, token=self.token or token_of_file(), ca_file=self.ca_file)

    def every(self, path: str, noun: str, query: Query | None = None, *, limit: int | None = None) -> list[Json]:
        """All things of a list that the server gives page by page, or the first `limit` of them."""
        found: list[Json] = []
        after: str | None = None
        while limit is None or len(found) < limit:
            wanted = None if limit is None else min(limit - len(found), PAGE)
            page = self.client.get(path, {**(query or {}), "limit": wanted, "after": after})
            found.extend(page[noun])
            after = page["next"]
            if after is None:
                break
        return found

    @cached_property
    def screen(self) -> Screen:
        return Screen(json=self.json)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Remote(Server):
    """A server and the tenant on it whose queues are meant."""

    tenant: Annotated[str, Parameter(env_var="COURIER_TENANT", group=CONNECTION)] = DEFAULT_TENANT
    """Whose queues."""

    def path(self, *segments: str) -> str:
        """A path inside the tenant."""
        return route("tenants", self.tenant or DEFAULT_TENANT, *segments)

    def queue(self, queue: str, *segments: str) -> str:
        return self.path("queues", queue, *segments)

    def exchange(self, exchange: str, *segments: str) -> str:
        return self.path("exchanges", exchange, *segments)


SERVER = Server()
REMOTE = Remote()
"""What a command uses when nothing else is said; environment variables are still heard."""
