"""A rig whose data plane goes through the native API: request, handler, broker, store and all the way back."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from couriermq.clock import FakeClock
from couriermq.core.errors import CourierError
from couriermq.core.model import (
    Ack,
    Counters,
    Death,
    Draft,
    Extend,
    Lease,
    Message,
    Release,
    Sent,
    Settled,
    Settlement,
    State,
)
from couriermq.dialects.native.errors import ERRORS, URN
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import TENANT, Rig
from tests.support.inprocess import Response, courier_app

T = f"/courier/v1/tenants/{TENANT}"
CLASSES = {URN + answer.name: kind for kind, answer in ERRORS.items()}


class HttpRig(Rig):
    """What a client of the native API sees, in the words of the core."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self._folder = folder

    async def open(self) -> None:
        # Without an archive: histories are read from the journal, which forgets what is sealed.
        self._running = courier_app(
            self._folder, clock=self.clock, dialects=("native",), min_free_bytes=0, archive_enabled=False
        )
        self.app = await self._running.__aenter__()
        self.store = self.app.store
        assert isinstance(self.app.store, SqliteStore)
        self.app.store._engine._sync = lambda descriptor: None  # these histories do not end in a crash
        self.catalog, self.broker = self.app.services.catalog, self.app.services.broker

    async def close(self) -> None:
        await self._running.__aexit__(None, None, None)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        options = {} if body is None else {"json": body}
        response: Response = await self.app.request(method, f"{T}{path}", **options)
        if response.status >= 300:
            raise error_of(response.json())
        return response.json() if response.body else None

    # -- in and out -------------------------------------------------------------------------------------------

    async def send_all(self, name: str, drafts: Sequence[Draft]) -> list[Sent | CourierError]:
        answer = await self.ask("POST", f"/queues/{name}/messages", {"messages": [_new(draft) for draft in drafts]})
        return [error_of(item["error"]) if "error" in item else Sent(**item) for item in answer["results"]]

    async def send_one(self, name: str, draft: Draft) -> Sent:
        return Sent(**await self.ask("POST", f"/queues/{name}/messages", _new(draft)))

    async def receive(self, name: str, **order: Any) -> list[Lease]:
        given = {key: value for key, value in order.items() if value is not None}
        answer = await self.ask("POST", f"/queues/{name}/receive", given)
        return [Lease(message_of(each["message"]), each["receipt"], each["expires_at"]) for each in answer["leases"]]

    async def settle(self, name: str, *settlements: Settlement) -> list[Settled | CourierError]:
        orders = [_order(settlement) for settlement in settlements]
        answer = await self.ask("POST", f"/queues/{name}/settle", {"settlements": orders})
        return [error_of(item["error"]) if "error" in item else Settled(**item) for item in answer["results"]]

    # -- look and move ----------------------------------------------------------------------------------------

    async def counters(self, name: str) -> Counters:
        figures = await self.ask("GET", f"/queues/{name}/counters")
        assert figures.pop("total_count") == figures["ready_count"] + figures["delayed_count"] + figures["leased_count"]
        oldest_age_ms = figures.pop("oldest_age_ms")
        assert oldest_age_ms == (None if figures["oldest_at"] is None else self.now - figures["oldest_at"])
        return Counters(**figures)

    async def browse(self, name: str, *, limit: int = 1_000, **where: Any) -> list[Message]:
        found: list[Message] = []
        query = {"limit": str(limit)}
        while True:
            page = await self.ask("GET", f"/queues/{name}/messages?{urlencode(query)}")
            found += [message_of(each) for each in page["messages"]]
            if page["next"] is None:
                return found
            query["after"] = page["next"]

    async def purge(self, name: str) -> int:
        return int((await self.ask("POST", f"/queues/{name}/purge"))["count"])

    async def remove(self, name: str, seqs: Sequence[int]) -> list[int]:
        return list((await self.ask("POST", f"/queues/{name}/remove", {"seqs": seqs}))["seqs"])

    async def cancel(self, name: str, message_id: str) -> Message:
        message = message_of(await self.ask("GET", f"/queues/{name}/messages/{quote(message_id, safe='')}"))
        await self.ask("DELETE", f"/queues/{name}/messages/{quote(message_id, safe='')}")
        return message

    async def move(self, source: str, target: str, seqs: Sequence[int] | None = None) -> int:
        order = {"target": target} | ({} if seqs is None else {"seqs": seqs})
        return int((await self.ask("POST", f"/queues/{source}/move", order))["count"])

    async def redrive(self, name: str, seqs: Sequence[int] | None = None) -> int:
        return int((await self.ask("POST", f"/queues/{name}/redrive", {} if seqs is None else {"seqs": seqs}))["count"])


def _new(draft: Draft) -> dict[str, Any]:
    parts = ("attributes", "id", "delay_ms", "retention_ms", "group", "dedup_id", "content_type")
    given = {name: getattr(draft, name) for name in parts}
    body = {"body_base64": base64.b64encode(draft.body).decode()}
    return body | {name: value for name, value in given.items() if value is not None}


def _order(settlement: Settlement) -> dict[str, Any]:
    match settlement:
        case Ack():
            return {"do": "ack", "receipt": settlement.receipt}
        case Release():
            delay = {} if settlement.delay_ms is None else {"delay_ms": settlement.delay_ms}
            return {"do": "release", "receipt": settlement.receipt, **delay}
        case Extend():
            return {"do": "extend", "receipt": settlement.receipt, "lease_ms": settlement.lease_ms}


def message_of(wire: dict[str, Any]) -> Message:
    body = wire.pop("body").encode() if "body" in wire else base64.b64decode(wire.pop("body_base64"))
    assert wire.pop("size") == len(body)
    death = wire.pop("death", None)
    if death is not None:
        death.pop("source_queue")
        death = Death(source_queue=death.pop("source_queue_id"), **death)
    state = State[wire.pop("state").upper()]
    return Message(body=body, state=state, death=death, **wire)


def error_of(problem: dict[str, Any]) -> CourierError:
    """The error of the core that a problem stands for, without its fields."""
    kind = CLASSES[problem["type"]]
    error = kind.__new__(kind)
    error.args = (problem["detail"],)
    return error
