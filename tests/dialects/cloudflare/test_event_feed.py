"""Event subscriptions of the source `queues`: what happens to queues arrives as messages."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from couriermq.core.errors import OffsetGone, Unavailable
from couriermq.core.events import Entry
from couriermq.core.hex_ids import hex_of
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.core.model import Action
from couriermq.core.quotas import Quotas
from couriermq.storage.base import Span, StoredRecord
from couriermq.subscriptions import CURSOR, RECORD, EventFeed
from tests.support.cloudflare import Account, Queue, cloudflare_account, refused
from tests.support.eventually import eventually

SUBSCRIPTIONS = "/event_subscriptions/subscriptions"
EVERYTHING = ["queue.created", "queue.updated", "queue.deleted", "message.deadLettered"]


@pytest.fixture
async def events(tmp_path: Path) -> AsyncIterator[Queue]:
    """The queue that gets the events."""
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue("events")


@pytest.fixture
def account(events: Queue) -> Account:
    return events.account


async def subscribe(events: Queue, *names: str, **more: Any) -> Any:
    order = {
        "name": "s",
        "source": {"type": "queues"},
        "destination": {"type": "queues.queue", "queue_id": events.id},
        "events": list(names) or EVERYTHING,
    }
    return await events.account.result("POST", SUBSCRIPTIONS, order | more)


async def arrived(events: Queue, count: int) -> list[Any]:
    """The events, once there are so many."""

    async def look() -> list[Any]:
        events.account.clock.advance(ms=1_000)
        return list((await events.result("POST", "/messages/peek", {"batch_size": 100}))["messages"])

    return await eventually(look, lambda found: len(found) >= count)


async def test_a_queue_that_is_created_is_told_in_the_vendors_form(events: Queue, account: Account) -> None:
    subscription = await subscribe(events)
    made = await account.queue("orders", pull=False)
    (message,) = await arrived(events, 1)
    assert message["metadata"] == {"CF-Content-Type": "json", "CF-sourceMessageSource": "queues"}
    document = json.loads(message["body"])
    assert document["metadata"].pop("eventTimestamp").endswith("Z")
    assert document == {
        "type": "cf.queues.queue.created",
        "source": {"type": "queues"},
        "payload": {"id": made.id, "name": "orders"},
        "metadata": {
            "accountId": hex_of("default"),
            "eventSubscriptionId": subscription["id"],
            "eventSchemaVersion": 1,
        },
    }


async def test_events_have_the_ids_that_the_api_shows(events: Queue, account: Account) -> None:
    await account.app.request("PATCH", "/courier/v1/tenants/default", json={"aliases": {"cloudflare": "not-hex"}})
    await subscribe(events)
    made, dead = {"cloudflare": "9f3e0d8c7b6a59483726151403f2e1d0"}, {"cloudflare": "0123456789abcdef0123456789abcdef"}
    await account.app.post("/courier/v1/tenants/default/queues", {"name": "dead", "aliases": dead})
    order = {"name": "orders", "aliases": made, "settings": {"max_attempts": 1, "dead_letter_queue": "dead"}}
    await account.app.post("/courier/v1/tenants/default/queues", order)
    queue = Queue(account, made["cloudflare"], "orders")
    await queue.consume()
    await queue.push({"n": 1})
    await queue.retry((await queue.pull_one())["lease_id"])
    await arrived(events, 4)
    await queue.result("DELETE", "")
    documents = [json.loads(message["body"]) for message in await arrived(events, 5)]
    assert {each["metadata"]["accountId"] for each in documents} == {hex_of("default")}
    assert [each["payload"]["id"] for each in documents] == [dead["cloudflare"], *[made["cloudflare"]] * 4]
    (died,) = [each["payload"] for each in documents if each["type"] == "cf.queues.message.deadLettered"]
    assert died["deadLetterQueueId"] == dead["cloudflare"]


async def test_only_what_was_asked_for_arrives(events: Queue, account: Account) -> None:
    await subscribe(events, "queue.deleted")
    made = await account.queue("orders")
    await made.result("DELETE", "")
    (message,) = await arrived(events, 1)
    assert json.loads(message["body"])["type"] == "cf.queues.queue.deleted"


async def test_a_dead_letter_is_told(events: Queue, account: Account) -> None:
    await subscribe(events, "message.deadLettered")
    made = await account.queue("orders", max_retries=0, dead_letter_queue="dead")
    await made.push({"n": 1})
    (leased,) = await made.pull()
    await made.result("POST", "/messages/ack", {"retries": [{"lease_id": leased["lease_id"]}]})
    (message,) = await arrived(events, 1)
    payload = json.loads(message["body"])["payload"]
    assert (payload["name"], payload["messageId"], payload["attempts"]) == ("orders", leased["id"], 1)
    assert payload["deadLetterQueueId"]


async def test_what_happened_before_the_subscription_does_not_arrive(events: Queue, account: Account) -> None:
    await account.queue("before", pull=False)
    account.clock.advance(ms=1_000)
    await subscribe(events, "queue.created")
    await account.queue("after", pull=False)
    assert [json.loads(one["body"])["payload"]["name"] for one in await arrived(events, 1)] == ["after"]


async def test_events_of_other_accounts_do_not_arrive(events: Queue, account: Account) -> None:
    catalog = account.app.services.catalog
    await subscribe(events, "queue.created")
    await catalog.create_tenant("foreign", principal="test")
    await catalog.create_queue("foreign", "theirs", principal="test")
    await account.queue("ours", pull=False)
    assert [json.loads(one["body"])["payload"]["name"] for one in await arrived(events, 1)] == ["ours"]


async def test_a_subscription_that_is_switched_off_gets_nothing_and_holds_back_nothing(
    events: Queue, account: Account
) -> None:
    made = await subscribe(events, "queue.created")
    await account.queue("first", pull=False)
    await arrived(events, 1)
    await eventually(lambda: [one.name for one in account.app.services.cursors.all()] == [CURSOR])
    await account.result("PATCH", f"{SUBSCRIPTIONS}/{made['id']}", {"enabled": False})
    await let_go(account)
    await account.queue("second", pull=False)
    account.clock.advance(ms=5_000)
    assert len(await arrived(events, 1)) == 1


async def let_go(account: Account) -> None:
    """Wait until the feed has found that nobody wants events."""

    def is_let_go() -> bool:
        account.clock.advance(ms=1_000)
        return account.app.services.cursors.all() == []

    await eventually(is_let_go)


async def test_a_subscription_that_is_switched_on_again_gets_what_happens_from_then_on(
    events: Queue, account: Account
) -> None:
    made = await subscribe(events, "queue.created")
    await account.queue("first", pull=False)
    await arrived(events, 1)
    await account.result("PATCH", f"{SUBSCRIPTIONS}/{made['id']}", {"enabled": False})
    await let_go(account)
    await account.queue("second", pull=False)  # in the same millisecond as the change
    await account.result("PATCH", f"{SUBSCRIPTIONS}/{made['id']}", {"enabled": True})
    await account.queue("third", pull=False)
    await account.result("PATCH", f"{SUBSCRIPTIONS}/{made['id']}", {"name": "t", "enabled": True})
    account.clock.advance(ms=1_000)
    await account.queue("fourth", pull=False)
    names = [json.loads(one["body"])["payload"]["name"] for one in await arrived(events, 3)]
    assert names == ["first", "third", "fourth"]


async def test_a_subscription_of_before_its_document_said_since_when_it_is_on_gets_all_since_it_was_made(
    events: Queue, account: Account
) -> None:
    document = {
        "name": "s",
        "enabled": True,
        "source": {"type": "queues"},
        "queue_id": account.app.services.catalog.queue("default", "events").id,
        "events": ["queue.created"],
    }
    await account.app.services.catalog.put_record(RECORD, "default", document, principal="test")
    await account.queue("first", pull=False)
    assert [json.loads(one["body"])["payload"]["name"] for one in await arrived(events, 1)] == ["first"]


@pytest.mark.parametrize("through_another_node", [False, True])
async def test_a_subscription_that_is_made_while_events_are_sent_to_another_gets_what_follows(
    events: Queue, account: Account, monkeypatch: pytest.MonkeyPatch, through_another_node: bool
) -> None:
    later = await account.queue("later")
    await subscribe(events, "queue.created")
    broker, catalog = account.app.services.broker, account.app.services.catalog
    send, is_first = broker.send, True

    async def send_while_another_subscribes(queue: Any, drafts: Any, *, principal: str) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            made = await subscribe(later, "queue.created")
            if through_another_node:
                know_only_after_catching_up(made["id"])
            await account.queue("second", pull=False)
        return await send(queue, drafts, principal=principal)

    def know_only_after_catching_up(subscription_id: str) -> None:
        (record,) = [one for one in catalog.records(RECORD, "default") if hex_of(one.id) == subscription_id]
        stored = StoredRecord(
            kind="record", tenant=record.tenant, id=record.id, document=msgspec.msgpack.encode(record)
        )
        catalog.learn(put=[], delete=[stored])

        async def catch_up() -> bool:
            catalog.learn(put=[stored], delete=[])
            return True

        monkeypatch.setattr(catalog, "catch_up", catch_up)

    monkeypatch.setattr(broker, "send", send_while_another_subscribes)
    account.clock.advance(ms=1_000)
    await account.queue("first", pull=False)
    await arrived(events, 2)
    (message,) = await arrived(later, 1)
    assert json.loads(message["body"])["payload"]["name"] == "second"


async def test_events_go_on_after_a_restart(tmp_path: Path) -> None:
    async with cloudflare_account(tmp_path) as account:
        events = await account.queue("events")
        await subscribe(events, "queue.created")
        await account.queue("first", pull=False)
        await arrived(events, 1)
    async with cloudflare_account(tmp_path) as account:
        events.account = account
        account.clock.advance(ms=60_000)
        await account.queue("second", pull=False)
        names = [json.loads(one["body"])["payload"]["name"] for one in await arrived(events, 2)]
        assert names == ["first", "second"]


async def test_an_event_that_the_source_does_not_have_is_refused(events: Queue, account: Account) -> None:
    order = {
        "name": "s",
        "source": {"type": "queues"},
        "destination": {"type": "queues.queue", "queue_id": events.id},
        "events": ["message.read"],
    }
    answer = await account.call("POST", SUBSCRIPTIONS, order)
    assert refused(answer) == (400, 0, "Unrecognized event types: message.read")


async def test_a_tenant_whose_quota_is_used_up_does_not_hold_up_the_events_of_others(
    events: Queue, account: Account
) -> None:
    catalog = account.app.services.catalog
    await catalog.create_tenant("full", quotas=Quotas(max_messages=0), principal="test")
    full = Queue(Account(account.app, "full"), "events", "events")
    await full.account.queue("events")
    await subscribe(events, "queue.created")
    await subscribe(full, "queue.created")
    await full.account.queue("theirs", pull=False)
    await account.queue("first", pull=False)
    await account.queue("second", pull=False)
    await arrived(events, 2)
    account.clock.advance(ms=5_000)
    await account.queue("third", pull=False)
    names = [json.loads(one["body"])["payload"]["name"] for one in await arrived(events, 3)]
    assert names == ["first", "second", "third"]


async def test_an_event_that_the_destination_does_not_take_is_lost_and_logged(
    events: Queue, account: Account, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = account.app.services.catalog
    small = await account.queue("small")
    await subscribe(small, "queue.created")
    await subscribe(events, "queue.created")
    queue = catalog.queue("default", "small")
    settings = msgspec.structs.replace(queue.settings, max_body_bytes=10)
    await catalog.change_queue(queue, settings=settings, principal="test")
    lost = re.compile(r"(\d+) events for queue small of tenant default are lost: the message is \d+ bytes")

    async def lost_count() -> int:
        account.clock.advance(ms=1_000)
        return sum(int(found[1]) for one in caplog.messages if (found := lost.match(one)))

    with caplog.at_level("WARNING"):
        await account.queue("first", pull=False)
        await account.queue("second", pull=False)
        await eventually(lost_count, lambda count: count == 2)
    assert len(await arrived(events, 2)) == 2
    assert await small.count() == 0


async def test_events_that_cannot_be_stored_now_are_sent_again(
    events: Queue, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.clock.advance(ms=1_000)
    await subscribe(events, "queue.created")
    broker = account.app.services.broker
    send, failures = broker.send, [Unavailable("the database cannot be reached")]

    async def flaky(queue: Any, drafts: Any, *, principal: str) -> Any:
        return [failures.pop()] if failures else await send(queue, drafts, principal=principal)

    monkeypatch.setattr(broker, "send", flaky)
    await account.queue("first", pull=False)
    (message,) = await arrived(events, 1)
    assert json.loads(message["body"])["payload"]["name"] == "first"


async def test_a_lane_that_forgot_events_does_not_send_those_of_other_lanes_again(
    events: Queue, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    await subscribe(events, "queue.created")
    services, beyond = account.app.services, first_of_lane(1)
    broker, started = services.broker, []
    spans = {0: Span(oldest=500, next=600), 1: Span(oldest=beyond, next=beyond + 1_000)}

    async def read_events(*, start: int, limit: int) -> list[Entry]:
        if start < spans[lane_of(start)].oldest:
            raise OffsetGone(start, spans[lane_of(start)].oldest)
        started.append(start)
        return []

    async def spans_of_two_lanes() -> dict[int, Span]:
        return spans

    monkeypatch.setattr(broker, "read_events", read_events)
    monkeypatch.setattr(broker, "spans", spans_of_two_lanes)
    feed = EventFeed(broker, services.catalog, account.clock, services.cursors, holds=lambda duty: True)
    feed._places = {0: 499, 1: beyond + 990}
    await feed.look()
    started.clear()
    await feed.look()
    assert started == [500, beyond + 990]


async def test_only_those_who_may_see_every_queue_follow_all_queues(events: Queue, account: Account) -> None:
    order = {
        "name": "s",
        "source": {"type": "queues"},
        "destination": {"type": "queues.queue", "queue_id": "events"},
        "events": ["queue.created"],
    }
    limited = await account.with_scopes(Action.MANAGE, queues=("events",))
    assert (await limited.call("POST", SUBSCRIPTIONS, order)).status == 403
    made = await account.result("POST", SUBSCRIPTIONS, order | {"enabled": False})
    path = f"{SUBSCRIPTIONS}/{made['id']}"
    assert (await limited.call("PATCH", path, {"enabled": True})).status == 403
    await limited.result("PATCH", path, {"name": "t"})
    await limited.result("DELETE", path)
