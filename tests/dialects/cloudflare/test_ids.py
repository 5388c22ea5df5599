"""Every id is shown as 32 hex digits, and that form is accepted wherever an id is."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.hex_ids import HEX_ID, hex_of
from couriermq.core.model import Draft
from tests.support.cloudflare import Account, Queue, cloudflare_account, refused

VENDORS = "023e105f4ecef8ad9ca31a8372d0c353"
NATIVE = "/courier/v1/tenants/default/queues"


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    async with cloudflare_account(tmp_path) as account:
        yield account


def subscription(queue_id: str) -> dict[str, Any]:
    destination = {"type": "queues.queue", "queue_id": queue_id}
    return {"name": "s", "source": {"type": "kv"}, "events": ["namespace.created"], "destination": destination}


async def test_ids_of_every_kind_are_hex_digits(account: Account) -> None:
    queue = await account.queue()
    shown = await queue.get()
    await queue.push({"n": 1})
    made = await account.result("POST", "/event_subscriptions/subscriptions", subscription(queue.id))
    ids = [
        shown["queue_id"],
        shown["consumers"][0]["queue_id"],
        shown["consumers"][0]["consumer_id"],
        (await queue.peek())[0]["id"],
        (await queue.pull_one())["id"],
        made["id"],
        made["destination"]["queue_id"],
        *(one["id"] for one in (await account.app.get("/client/v4/accounts")).json()["result"]),
    ]
    assert [one for one in ids if not HEX_ID.fullmatch(one)] == []
    assert made["destination"]["queue_id"] == shown["consumers"][0]["queue_id"] == shown["queue_id"]


async def test_what_a_list_shows_is_accepted_as_are_the_ids_of_courier(account: Account) -> None:
    queue = await account.queue()
    catalog = account.app.services.catalog
    ours = catalog.queue("default", queue.id).id
    assert ours != queue.id
    ((accounts,), (listed,)) = (
        (await account.app.get("/client/v4/accounts")).json()["result"],
        await account.result("GET", "/queues"),
    )
    for account_id in ("default", accounts["id"]):
        for queue_id in (listed["queue_id"], ours, "orders"):
            same = Account(account.app, account_id)
            assert await same.result("GET", f"/queues/{queue_id}") == listed
            consumer = listed["consumers"][0]["consumer_id"]
            assert await same.result("GET", f"/queues/{queue_id}/consumers/{consumer}") == listed["consumers"][0]
    made = await account.result("POST", "/event_subscriptions/subscriptions", subscription(listed["queue_id"]))
    path = "/event_subscriptions/subscriptions"
    assert await account.result("GET", f"{path}/{made['id']}") == made
    for queue_id in (listed["queue_id"], ours):
        assert await account.result("GET", f"{path}?queue_id={queue_id}") == [made]


async def test_a_dead_letter_queue_may_be_named_by_its_hex_digits(account: Account) -> None:
    dead = await account.queue("dead")
    queue = await account.queue()
    consumer = (await queue.get())["consumers"][0]
    order = {"type": "http_pull", "dead_letter_queue": dead.id}
    assert (await queue.result("PUT", f"/consumers/{consumer['consumer_id']}", order))["dead_letter_queue"] == "dead"


async def test_an_id_that_another_dialect_gave_is_kept_beside_the_hex_digits(account: Account) -> None:
    queue = await account.queue()
    services = account.app.services
    kept = services.catalog.queue("default", "orders")
    await services.broker.send_one(kept, Draft(body=b"x", id="order 66"), principal="test")
    message = await queue.pull_one()
    assert (message["id"], message["metadata"]["Courier-Message-Id"]) == (hex_of("order 66"), "order 66")


async def test_a_queue_is_found_and_shown_by_its_alias(account: Account) -> None:
    made = await account.app.post(NATIVE, {"name": "orders", "aliases": {"cloudflare": VENDORS}})
    assert made.json()["aliases"] == {"cloudflare": VENDORS}
    queue = Queue(account, VENDORS, "orders")
    assert (await queue.get())["queue_id"] == VENDORS
    await queue.consume()
    await queue.push({"n": 1})
    assert (await queue.pull_one())["body"] == '{"n":1}'
    found = await account.result("POST", "/event_subscriptions/subscriptions", subscription(VENDORS))
    assert found["destination"]["queue_id"] == VENDORS
    for queue_id in (made.json()["id"], hex_of(made.json()["id"]), "orders"):
        assert (await account.result("GET", f"/queues/{queue_id}"))["queue_id"] == VENDORS


async def test_an_alias_can_be_given_and_taken_later_and_outlives_a_restart(tmp_path: Path) -> None:
    async with cloudflare_account(tmp_path) as account:
        queue = await account.queue()
        path = f"{NATIVE}/orders"
        await account.app.request("PATCH", path, json={"aliases": {"cloudflare": VENDORS}})
        assert (await queue.get())["queue_id"] == VENDORS
    async with cloudflare_account(tmp_path) as account:
        assert (await account.result("GET", f"/queues/{VENDORS}"))["queue_name"] == "orders"
        await account.app.request("PATCH", path, json={"aliases": {}})
        assert refused(await account.call("GET", f"/queues/{VENDORS}"))[:2] == (404, 11000)
        assert (await account.result("GET", "/queues/orders"))["queue_id"] == queue.id


async def test_an_alias_leads_to_one_queue_and_takes_no_name(account: Account) -> None:
    app = account.app
    await app.post(NATIVE, {"name": "orders", "aliases": {"cloudflare": VENDORS}})
    await app.post(NATIVE, {"name": "other"})
    for order in (
        {"name": "more", "aliases": {"cloudflare": VENDORS}},
        {"name": "more", "aliases": {"cloudflare": "other"}},
        {"name": VENDORS},
    ):
        assert (await app.post(NATIVE, order)).status == 409, order
    assert (await app.post(NATIVE, {"name": "more", "aliases": {"cloudflare": "a b"}})).status == 400
    await app.request("DELETE", f"{NATIVE}/orders")
    assert (await app.post(NATIVE, {"name": "more", "aliases": {"cloudflare": VENDORS}})).status == 201


async def test_an_alias_is_of_one_tenant(account: Account) -> None:
    await account.app.post(NATIVE, {"name": "orders", "aliases": {"cloudflare": VENDORS}})
    await account.app.services.catalog.create_tenant("acme", principal="test")
    theirs = Account(account.app, "acme")
    assert refused(await theirs.call("GET", f"/queues/{VENDORS}"))[:2] == (404, 11000)


async def test_a_queue_cannot_take_the_hex_digits_of_another(account: Account) -> None:
    queue = await account.queue()
    assert refused(await account.call("POST", "/queues", {"queue_name": queue.id}))[:2] == (409, 11009)
