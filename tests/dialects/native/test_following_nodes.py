"""Readers of the journal that wait at one node for what other nodes commit."""

import asyncio
from pathlib import Path

import pytest

from couriermq.journal.followers import POLL_MS
from tests.support.eventually import eventually
from tests.support.native import PREFIX, native_tenant
from tests.support.postgres import shared_cluster

EVENTS = f"{PREFIX}/journal/events"

pytestmark = pytest.mark.postgres


async def test_a_reader_is_answered_by_a_commit_of_another_node(tmp_path: Path) -> None:
    store = {"store": shared_cluster().store_url(tmp_path), "archive_enabled": False}
    async with native_tenant(tmp_path / "here", **store) as here, native_tenant(tmp_path / "there", **store) as there:
        queue = await there.queue("orders")
        await queue.send("sent before")
        (lease,) = await queue.receive()
        place = (await here.ask("GET", f"{PREFIX}/journal"))["merged"]
        asked = f"{EVENTS}?merged=true&from={place}&queue=orders&wait_ms=60000"
        reader = asyncio.create_task(here.ask("GET", asked))
        await eventually(lambda: here.app.services.followers.count)
        await queue.ask("POST", "/ack", {"receipt": lease["receipt"]})  # of which no notice tells
        here.clock.advance(ms=POLL_MS)
        await eventually(reader.done)
        page = await reader
        assert [event["kind"] for event in page["events"]] == ["acked"]
