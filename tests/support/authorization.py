"""Who may call what: every operation of every dialect, tried with every kind of credential.

`python -m tests.support.authorization docs/operate/authorization.md` writes the tables of that page anew.
"""

import asyncio
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from couriermq.clock import FakeClock
from couriermq.core.errors import NotFound
from couriermq.core.model import Action, Credential, Scope
from couriermq.server import DIALECTS
from tests.support.inprocess import ROOT_TOKEN, InProcess, Response, courier_app

METHODS = ("get", "head", "post", "put", "patch", "delete")
QUEUE_PARAMS = ("queue", "queue_id", "destination", "exchange")
TENANT_PARAMS = ("tenant", "account_id", "organization", "api_client_id")

QUEUE, TENANT = "queue", "all"
"""What a scope must cover to be enough: the queues and exchanges of the call, or all of them."""

WINDOW = "startDate=2023-11-14T00:00:00Z&endDate=2023-11-15T00:00:00Z"
READ_QUEUES = {"queues": {"access": "read", "targets": ["*"]}}
QUERIES = {
    "consume": "pollingTime=0",
    "queuesNow": "destinationIds=orders",
    "queueHistory": f"{WINDOW}&period=60",
    "exchangeHistory": f"{WINDOW}&period=60",
    "environmentUsage": f"{WINDOW}&period=1day",
    "organizationUsage": f"{WINDOW}&period=1day",
}
BODIES: dict[str, Any] = {
    "native.create_credential": {"name": "made", "scopes": []},
    "native.bind_queue": {},
    "native.move_messages": {"target": "orders"},
    "native.start_operation": {"verb": "remove", "queue": "orders"},
    "cloudflare.create_consumer": {"type": "http_pull"},
    "cloudflare.update_consumer": {"type": "http_pull"},
    "anypoint.publishBatch": [],
    "anypoint.ackBatch": [],
    "anypoint.nackBatch": [],
    "anypoint.extendBatch": [],
    "anypoint.putFallback": {"fallbackEnabled": False},
    "discue.createApiKey": {"scopes": READ_QUEUES},
    "discue.createApiKeyByPut": {"scopes": READ_QUEUES},
}


class Operation(NamedTuple):
    """One operation of an OpenAPI document."""

    dialect: str
    id: str
    method: str
    path: str
    public: bool

    @property
    def params(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)

    def is_about(self, params: Sequence[str]) -> bool:
        return any(param in params for param in self.params)


class Row(NamedTuple):
    """What an operation takes: `who` where scopes do not decide, else what each action must cover."""

    operation: Operation
    who: str
    scopes: Mapping[Action, str]

    @property
    def cells(self) -> list[str]:
        path = f"`{self.operation.method} {self.operation.path}`"
        return [path, *(self.scopes.get(action, "") for action in Action), self.who]


async def operations_of(app: InProcess) -> list[Operation]:
    """Every operation of the documents that the server itself serves."""
    found = []
    for dialect in DIALECTS:
        document = (await app.get(f"/openapi/{dialect}.json")).json()
        for path, item in document["paths"].items():
            for method in METHODS:
                if (one := item.get(method)) is not None:
                    is_public = one.get("security") == []
                    found.append(Operation(dialect, one["operationId"], method.upper(), path, is_public))
    return found


class World:
    """A tenant that has one of everything, and callers who may do different things with it."""

    def __init__(self, app: InProcess) -> None:
        self.app = app
        self.catalog = app.services.catalog
        self.operations: list[Operation] = []
        self.callers: dict[str, str] = {}
        self._calls = 0

    async def prepare(self) -> None:
        self.operations = await operations_of(self.app)
        await self.catalog.create_tenant("acme", principal="test")
        for name in ("orders", "other"):
            await self.catalog.create_queue("acme", name, principal="test")
        now = self.app.clock.now()
        for action in Action:
            await self._caller(f"{action}", Scope(action))
            await self._caller(f"{action} here", Scope(action, ("orders", "events")))
            await self._caller(f"{action} elsewhere", Scope(action, ("other",)))
        every = [Scope(action) for action in Action]
        await self._caller("nothing")
        await self._caller("everything", *every)
        await self._caller("expired", *every, expires_at=now - 1)
        await self._caller("disabled", *every, enabled=False)
        rotated = await self._caller("rotated", *every)
        await self.catalog.rotate_credential(rotated, principal="test")
        await self._caller("foreign", *every, tenant="acme")
        self.callers["root"] = ROOT_TOKEN
        await self.ensure()

    async def _caller(self, name: str, *scopes: Scope, tenant: str = "default", **facts: Any) -> Credential:
        made, secret = await self.catalog.create_credential(tenant, name, scopes=scopes, principal="test", **facts)
        self.callers[name] = secret
        return made

    async def ensure(self) -> None:
        """Make what an earlier call has taken away."""
        catalog, who = self.catalog, "test"
        names = {queue.name for queue in catalog.queues("default")}
        for name in {"orders", "other"} - names:
            await catalog.create_queue("default", name, principal=who)
        queue = catalog.queue("default", "orders")
        if not catalog.exchanges("default"):
            exchange = await catalog.create_exchange("default", "events", principal=who)
            await catalog.bind(exchange, queue, principal=who)
        if not catalog.listeners_of(queue):
            await catalog.create_listener(queue, "hook", "https://shop.example/hook", principal=who)
        self.listener = catalog.listeners_of(queue)[0].id
        self.target = await self._credential("target", scopes=[])
        self.client = await self._credential(
            "client",
            scopes=[Scope(Action.SEND), Scope(Action.RECEIVE)],
            dialect_facts=lambda secret: {"anypoint": {"client_app": True}},
        )
        self.subscription = await self._subscription(queue.id)

    async def _credential(self, name: str, **facts: Any) -> str:
        known = [one for one in self.catalog.credentials("default") if one.name == name]
        if known:
            return known[0].id
        return (await self.catalog.create_credential("default", name, principal="test", **facts))[0].id

    async def _subscription(self, queue_id: str) -> str:
        kind = "cloudflare.subscription"
        document = {"name": "s", "enabled": True, "source": {"type": "kv"}, "queue_id": queue_id, "events": []}
        try:
            kept = self.catalog.record(kind, "default", "subscription").document["queue_id"] == queue_id
        except NotFound:
            kept = False
        if not kept:
            await self.catalog.put_record(kind, "default", document, record_id="subscription", principal="test")
        return "subscription"

    def path(self, operation: Operation, **instead: str) -> str:
        values = {
            "tenant": "default", "account_id": "default", "organization": "default", "environment": "default",
            "api_client_id": "default", "queue": "orders", "queue_id": "orders", "destination": "orders",
            "exchange": "events", "region": "us-east-1", "listener": self.listener, "listener_id": self.listener,
            "credential": self.target, "api_key_id": self.target, "client": self.client, "number": "0",
            "subscription_id": self.subscription,
        } | instead  # fmt: skip
        path = re.sub(r"{(\w+)}", lambda match: quote(values.get(match[1], "nothing"), safe=""), operation.path)
        query = QUERIES.get(operation.id)
        return f"{path}?{query}" if query else path

    async def call(self, operation: Operation, caller: str, **instead: str) -> Response:
        """One call, from an address of its own: bad credentials must not slow the others down."""
        self._calls += 1
        token, body = self.callers[caller], self._body(operation)
        headers = {"host": "courier.test"} | ({"x-api-key": token} if operation.dialect == "discue" else {})
        options: dict[str, Any] = {} if operation.method == "GET" else {"json": body}
        response = await self.app.request(
            operation.method,
            self.path(operation, **instead),
            headers=headers,
            token=None if operation.dialect == "discue" else token,
            client=f"10.{self._calls >> 16}.{self._calls >> 8 & 255}.{self._calls & 255}",
            **options,
        )
        if operation.method != "GET" and response.status < 300:
            await self.ensure()
        return response

    def _body(self, operation: Operation) -> Any:
        if operation.id in {"createClient", "create_queue", "createQueue"}:
            return {"name": f"new-{self._calls}"}
        if operation.id == "create_subscription":
            destination = {"type": "queues.queue", "queue_id": "orders"}
            return {"name": "s", "source": {"type": "kv"}, "events": ["namespace.created"], "destination": destination}
        return BODIES.get(f"{operation.dialect}.{operation.id}", {})

    async def admits(self, operation: Operation, caller: str) -> bool:
        """Whether the call is let through, whatever comes of it then.

        A subscription that the caller may not see is answered like one that does not exist.
        """
        response = await self.call(operation, caller)
        hidden = response.status == 404 and "subscription_id" in operation.params
        return response.status not in {401, 403} and not hidden

    async def row(self, operation: Operation) -> Row:
        """What the operation takes, found out by trying."""
        if operation.public:
            return Row(operation, "anyone", {})
        if await self.admits(operation, "nothing"):
            return Row(operation, "any credential", {})
        scopes = {}
        for action in Action:
            if await self.admits(operation, f"{action} here"):
                scopes[action] = QUEUE
            elif await self.admits(operation, f"{action}"):
                scopes[action] = TENANT
        if scopes:
            return Row(operation, "", scopes)
        return Row(operation, "several scopes" if await self.admits(operation, "everything") else "root", {})


# -- the page -------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """The rows of one dialect in Markdown."""
    lines = [["Operation", *Action, ""], ["---"] * (len(Action) + 2), *(row.cells for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def tables_of(page: str) -> dict[str, str]:
    """The tables of the page by their dialect."""
    return {match[1]: match[2] for match in re.finditer(r"<!-- (\w+) -->\n(.*?)\n<!-- end -->", page, re.DOTALL)}


async def rows_of_every_dialect(folder: Path) -> dict[str, list[Row]]:
    async with courier_app(folder, clock=FakeClock(), dialects=DIALECTS) as app:
        world = World(app)
        await world.prepare()
        rows: dict[str, list[Row]] = {}
        for operation in world.operations:
            rows.setdefault(operation.dialect, []).append(await world.row(operation))
        return rows


def main(page: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(rows_of_every_dialect(Path(folder)))
    text = page.read_text()
    for dialect, found in rows.items():
        before, marker, rest = text.partition(f"<!-- {dialect} -->\n")
        _, end, after = rest.partition("\n<!-- end -->")
        text = before + marker + table(found) + end + after
    page.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
