"""Event subscriptions through the Cloudflare dialect: configuration that is kept as it was given."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Action
from tests.support.cloudflare import Account, Queue, cloudflare_account, refused

PATH = "/event_subscriptions/subscriptions"


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


def order(queue: Queue, **changes: Any) -> dict[str, Any]:
    return {
        "name": "bucket-events",
        "enabled": True,
        "source": {"type": "r2"},
        "destination": {"type": "queues.queue", "queue_id": queue.id},
        "events": ["bucket.created", "bucket.deleted"],
        **changes,
    }


async def test_a_subscription_is_kept_and_shown(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue))
    assert made == order(queue) | {
        "id": made["id"],
        "created_at": "2023-11-14T22:13:20.000000Z",
        "modified_at": "2023-11-14T22:13:20.000000Z",
    }
    assert await account.result("GET", f"{PATH}/{made['id']}") == made
    assert await account.result("GET", PATH) == [made]


async def test_a_source_keeps_the_names_that_belong_to_it(queue: Queue, account: Account) -> None:
    source = {"type": "workersBuilds.worker", "worker_name": "my-worker"}
    made = await account.result("POST", PATH, order(queue, source=source, events=["build.failed"]))
    assert made["source"] == source


async def test_a_change_replaces_what_it_names(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue))
    other = await account.queue("other")
    account.clock.advance(ms=1_000)
    changed = await account.result(
        "PATCH",
        f"{PATH}/{made['id']}",
        {
            "name": "renamed",
            "enabled": False,
            "events": ["bucket.deleted"],
            "destination": {"type": "queues.queue", "queue_id": other.id},
        },
    )
    assert changed == made | {
        "name": "renamed",
        "enabled": False,
        "events": ["bucket.deleted"],
        "destination": {"type": "queues.queue", "queue_id": other.id},
        "modified_at": "2023-11-14T22:13:21.000000Z",
    }
    assert await account.result("PATCH", f"{PATH}/{made['id']}", {}) == changed


async def test_a_deleted_subscription_is_shown_once_more(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue))
    assert await account.result("DELETE", f"{PATH}/{made['id']}") == made
    assert refused(await account.call("GET", f"{PATH}/{made['id']}"))[:2] == (404, 0)


async def test_pages_end_with_an_empty_one(queue: Queue, account: Account) -> None:
    for number in range(45):
        await account.result("POST", PATH, order(queue, name=f"s{number:02d}"))
        account.clock.advance(ms=1)
    pages = [await account.result("GET", f"{PATH}?page={page}") for page in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [20, 20, 5, 0]
    info = (await account.call("GET", f"{PATH}?page=3")).json()["result_info"]
    assert info == {"page": 3, "per_page": 20, "count": 5, "total_count": 45, "total_pages": 3}
    assert len(await account.result("GET", f"{PATH}?per_page=30&page=2")) == 15


async def test_a_list_is_sorted_and_filtered_as_asked(queue: Queue, account: Account) -> None:
    other = await account.queue("other")
    for name, target, kind, event, enabled in (
        ("b", queue, "r2", "bucket.created", True),
        ("a", other, "kv", "namespace.created", False),
        ("c", queue, "vectorize", "index.created", True),
    ):
        await account.result(
            "POST", PATH, order(target, name=name, source={"type": kind}, events=[event], enabled=enabled)
        )
        account.clock.advance(ms=1)

    async def names(query: str) -> str:
        return "".join(found["name"] for found in await account.result("GET", f"{PATH}?{query}"))

    assert await names("") == "bac"
    assert await names("direction=desc") == "cab"
    assert await names("order=name&direction=desc") == "cba"
    assert await names("order=source") == "abc"
    assert (await names("order=enabled"))[0] == "a"
    assert await names(f"queue_id={queue.id}") == "bc"


BAD_ORDERS: dict[str, tuple[dict[str, Any], int, str]] = {
    "no name": ({"name": None}, 10026, "a subscription needs a name"),
    "no source": ({"source": None}, 10026, "a subscription needs a source"),
    "no destination": ({"destination": None}, 10026, "a subscription needs a destination"),
    "no events": ({"events": []}, 10026, "a subscription needs at least one event"),
    "unknown events": ({"events": ["bucket.painted"]}, 0, "Unrecognized event types: bucket.painted"),
    "events of another source": ({"events": ["job.started"]}, 0, "Unrecognized event types: job.started"),
    "events that look like none": (
        {"source": {"type": "images"}, "events": ["image.created", "Bad Event"]},
        0,
        "Unrecognized event types: Bad Event",
    ),
    "another destination": (
        {"destination": {"type": "http", "queue_id": "x"}},
        10026,
        "a destination has the type queues.queue",
    ),
    "a long name": ({"name": "n" * 257}, 10026, "a name has at most 256 characters"),
    "many events": ({"events": ["bucket.created"] * 101}, 10026, "a subscription has at most 100 events"),
    "a large source": (
        {"source": {"type": "r2", "note": "n" * 4_096}},
        10026,
        "source is 4113 bytes; at most 4096 are allowed",
    ),
    "a deep source": (
        {"source": {"type": "r2", "note": json.loads("[" * 70 + "]" * 70)}},
        10026,
        "source is nested too deeply; at most 64 levels are allowed",
    ),
    "enabled as a word": (
        {"enabled": "yes"},
        10026,
        "the body does not fit: Expected `bool | null`, got `str` - at `$.enabled`",
    ),
}


@pytest.mark.parametrize("case", BAD_ORDERS.values(), ids=BAD_ORDERS.keys())
async def test_a_subscription_that_is_refused(
    queue: Queue, account: Account, case: tuple[dict[str, Any], int, str]
) -> None:
    changes, code, sentence = case
    assert refused(await account.call("POST", PATH, order(queue, **changes))) == (400, code, sentence)
    assert await account.result("GET", PATH) == []


async def test_a_number_that_no_store_holds_is_refused(queue: Queue, account: Account) -> None:
    body = json.dumps(order(queue, source={"type": "r2", "size": 10**30})).encode()
    answer = await account.app.request("POST", account.path + PATH, body=body)
    assert refused(answer) == (400, 10026, "source holds a whole number that does not fit in 64 bits")


async def test_an_account_has_a_limited_number_of_subscriptions(
    queue: Queue, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("couriermq.dialects.cloudflare.subscriptions.SUBSCRIPTIONS", 1)
    await account.result("POST", PATH, order(queue))
    answer = refused(await account.call("POST", PATH, order(queue)))
    assert answer[2] == "an account has at most 1000 event subscriptions; delete one first"


async def test_a_source_that_is_not_known(queue: Queue, account: Account) -> None:
    answer = refused(await account.call("POST", PATH, order(queue, source={"type": "moon"})))
    assert answer[:2] == (400, 10026)
    assert answer[2].startswith('source type is "moon"; choose one of artifacts, ')


async def test_a_destination_must_exist(queue: Queue, account: Account) -> None:
    destination = {"type": "queues.queue", "queue_id": "nowhere"}
    assert refused(await account.call("POST", PATH, order(queue, destination=destination)))[:2] == (404, 11000)
    assert await account.result("GET", PATH) == []


async def test_a_refused_change_leaves_the_subscription_as_it_was(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue))
    changes: tuple[dict[str, Any], ...] = (
        {"events": ["nonsense"]},
        {"name": ""},
        {"events": []},
        {"source": {"type": "kv"}},
    )
    for change in changes:
        assert (await account.call("PATCH", f"{PATH}/{made['id']}", change)).status == 400
    assert await account.result("GET", PATH) == [made]


@pytest.mark.parametrize("query", ["order=size", "direction=up", "page=0"])
async def test_a_list_that_cannot_be_sorted_so(account: Account, query: str) -> None:
    assert refused(await account.call("GET", f"{PATH}?{query}"))[:2] == (400, 10026)


async def test_a_subscription_belongs_to_those_who_see_its_queue(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue))
    other = await account.queue("other")
    stranger = await account.with_scopes(Action.MANAGE, queues=("other",))
    assert await stranger.result("GET", PATH) == []
    for method in ("GET", "DELETE"):
        hidden, missing = [await stranger.call(method, f"{PATH}/{one}") for one in (made["id"], "nothing")]
        assert refused(hidden)[:2] == refused(missing)[:2] == (404, 0)
        assert hidden.body.replace(made["id"].encode(), b"nothing") == missing.body
    assert refused(await stranger.call("POST", PATH, order(queue)))[:2] == (403, 10000)
    theirs = await stranger.result("POST", PATH, order(other))
    move = {"destination": {"type": "queues.queue", "queue_id": queue.id}}
    assert refused(await stranger.call("PATCH", f"{PATH}/{theirs['id']}", move))[:2] == (403, 10000)


async def test_a_subscription_outlives_a_queue_that_another_dialect_deletes(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue))
    catalog = account.app.services.catalog
    await catalog.delete_queue(catalog.queue("default", queue.id), principal="test")
    manager, reader = await account.with_scopes(Action.MANAGE), await account.with_scopes(Action.BROWSE)
    assert await reader.result("GET", PATH) == []
    assert await manager.result("GET", PATH) == [made]
    assert (await manager.result("PATCH", f"{PATH}/{made['id']}", {"enabled": False}))["enabled"] is False
    await manager.result("DELETE", f"{PATH}/{made['id']}")
    assert await manager.result("GET", PATH) == []


async def test_a_destination_may_be_named_instead_of_its_id(queue: Queue, account: Account) -> None:
    made = await account.result("POST", PATH, order(queue, destination={"type": "queues.queue", "queue_id": "orders"}))
    assert made["destination"]["queue_id"] == queue.id
