"""Queues and consumers that the Cloudflare dialect refuses to make: status, code, and a sentence that helps."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloudflare import Account, Queue, cloudflare_account, refused


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


# -- queues ------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "Orders", "a_b", "-a", "a-", "a" * 64, "a.b", "a b", "é", None, 5, ["a"]], ids=repr
)
async def test_a_name_that_the_vendor_refuses(account: Account, name: object) -> None:
    status, code, sentence = refused(await account.call("POST", "/queues", {"queue_name": name}))
    assert (status, code) == (400, 11003)
    assert sentence.startswith("Queue name '")
    assert "is invalid: it must have 1 to 63 lower-case letters" in sentence
    assert len(await account.result("GET", "/queues")) == 1


async def test_a_queue_without_a_name_is_refused(account: Account) -> None:
    assert refused(await account.call("POST", "/queues"))[:2] == (400, 11003)
    assert refused(await account.call("POST", "/queues", {}))[:2] == (400, 11003)


async def test_a_name_of_63_characters_is_taken(account: Account) -> None:
    assert (await account.result("POST", "/queues", {"queue_name": "a" * 63}))["queue_name"] == "a" * 63


async def test_a_name_that_is_taken(queue: Queue, account: Account) -> None:
    sentence = "Queue name 'orders' is already taken. Please use a different name and try again."
    response = await account.call("POST", "/queues", {"queue_name": "orders"})
    assert refused(response) == (409, 11009, sentence)
    assert response.headers["x-should-retry"] == "false"
    other = await account.queue("other", pull=False)
    assert refused(await other.call("PATCH", "", {"queue_name": "orders"})) == (409, 11009, sentence)
    assert (await other.get())["queue_name"] == "other"


BAD_QUEUE_SETTINGS = {
    "delay too long": ({"delivery_delay": 86_401}, "settings.delivery_delay is 86401; choose from 0 to 86400 seconds"),
    "delay below zero": ({"delivery_delay": -1}, "settings.delivery_delay is -1; choose from 0 to 86400 seconds"),
    "retention too short": (
        {"message_retention_period": 59},
        "settings.message_retention_period is 59; choose from 60 to 1209600 seconds",
    ),
    "retention too long": (
        {"message_retention_period": 1_209_601},
        "settings.message_retention_period is 1209601; choose from 60 to 1209600 seconds",
    ),
    "paused as a word": ({"delivery_paused": "yes"}, 'settings.delivery_paused is "yes"; choose true or false'),
}


@pytest.mark.parametrize("order", BAD_QUEUE_SETTINGS.values(), ids=BAD_QUEUE_SETTINGS.keys())
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_queue_settings_that_are_refused(queue: Queue, method: str, order: tuple[Any, str]) -> None:
    settings, sentence = order
    before = await queue.account.result("GET", "/queues")
    path = "/queues" if method == "POST" else queue.path
    body = {"queue_name": "brand-new", "settings": settings}
    assert refused(await queue.account.call(method, path, body)) == (400, 100128, sentence)
    assert await queue.account.result("GET", "/queues") == before


async def test_a_jurisdiction_is_chosen_once(account: Account) -> None:
    unknown = await account.call("POST", "/queues", {"queue_name": "a", "jurisdiction": "moon"})
    assert refused(unknown)[:2] == (400, 100128)
    made = await account.result("POST", "/queues", {"queue_name": "b", "jurisdiction": "eu"})
    path = f"/queues/{made['queue_id']}"
    assert (await account.result("PATCH", path, {"jurisdiction": "eu"}))["jurisdiction"] == "eu"
    assert refused(await account.call("PATCH", path, {"jurisdiction": "us"})) == (
        400,
        100128,
        "the jurisdiction of a queue is chosen when it is created and cannot be changed",
    )


async def test_a_dead_letter_queue_in_use_cannot_be_deleted(account: Account) -> None:
    await account.queue("source", dead_letter_queue="dead")
    assert refused(await account.call("DELETE", "/queues/dead")) == (
        409,
        11005,
        "Cannot delete queue 'dead' that serves as dead letter queue for consumers",
    )
    assert len(await account.result("GET", "/queues?name=dead")) == 1


@pytest.mark.parametrize("flag", [False, None, "true", 1])
async def test_a_purge_must_be_meant(queue: Queue, flag: object) -> None:
    await queue.push({"n": 1})
    order = {"delete_messages_permanently": flag}
    answer = refused(await queue.call("POST", "/purge", order))
    assert answer == (400, 10026, "delete_messages_permanently must be true: a purge cannot be undone")
    assert refused(await queue.call("POST", "/purge"))[:2] == (400, 10026)
    assert (await queue.count(), await queue.result("GET", "/purge")) == (1, {})


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=-1", "per_page=0", "page=9999999999"])
async def test_a_page_that_cannot_be(account: Account, query: str) -> None:
    status, code, sentence = refused(await account.call("GET", f"/queues?{query}"))
    assert (status, code) == (400, 10026)
    assert "choose a whole number from 1 on" in sentence


# -- consumers ------------------------------------------------------------

BAD_CONSUMERS = {
    "no type": ({}, 10026, "type is null; choose http_pull, worker or notification"),
    "unknown type": ({"type": "push"}, 10026, 'type is "push"; choose http_pull, worker or notification'),
    "type of the wrong type": ({"type": {}}, 10026, "type is {}; choose http_pull, worker or notification"),
    "worker without a script": ({"type": "worker"}, 10026, "a worker consumer needs its script_name"),
    "dead letter queue of the wrong type": (
        {"type": "http_pull", "dead_letter_queue": 5},
        10026,
        "the body does not fit: Expected `str | null`, got `int` - at `$.dead_letter_queue`",
    ),
    "too many retries": (
        {"type": "http_pull", "settings": {"max_retries": 101}},
        100127,
        "settings.max_retries is 101; choose a whole number from 0 to 100",
    ),
    "retry delay too long": (
        {"type": "http_pull", "settings": {"retry_delay": 86_401}},
        100127,
        "settings.retry_delay is 86401; choose from 0 to 86400 seconds",
    ),
    "lease too long": (
        {"type": "http_pull", "settings": {"visibility_timeout_ms": 43_200_001}},
        100127,
        "settings.visibility_timeout_ms is 43200001; choose a whole number from 0 to 43200000",
    ),
    "batch too large": (
        {"type": "http_pull", "settings": {"batch_size": 101}},
        100127,
        "settings.batch_size is 101; choose a whole number from 1 to 100",
    ),
    "wait too long": (
        {"type": "worker", "script_name": "w", "settings": {"max_wait_time_ms": 60_001}},
        100127,
        "settings.max_wait_time_ms is 60001; choose a whole number from 0 to 60000",
    ),
    "too much concurrency": (
        {"type": "worker", "script_name": "w", "settings": {"max_concurrency": 251}},
        100127,
        "settings.max_concurrency is 251; choose a whole number from 1 to 250",
    ),
    "dead letters to itself": (
        {"type": "http_pull", "dead_letter_queue": "unread"},
        100127,
        "dead letters of 'unread' would come back to it; choose another queue",
    ),
    "dead letter queue with a bad name": (
        {"type": "http_pull", "dead_letter_queue": "Not A Name"},
        11003,
        "Queue name 'Not A Name' is invalid: it must have 1 to 63 lower-case letters, digits and hyphens, and start "
        "and end with a letter or a digit",
    ),
}


@pytest.mark.parametrize("order", BAD_CONSUMERS.values(), ids=BAD_CONSUMERS.keys())
async def test_a_consumer_that_is_refused(account: Account, order: tuple[Any, int, str]) -> None:
    body, code, sentence = order
    queue = await account.queue("unread", pull=False)
    before = await account.result("GET", "/queues")
    assert refused(await queue.call("POST", "/consumers", body)) == (400, code, sentence)
    assert refused(await queue.call("PUT", "/consumers/anything", body)) == (400, code, sentence)
    assert await account.result("GET", "/queues") == before


async def test_a_ring_of_dead_letter_queues_is_refused(queue: Queue, account: Account) -> None:
    other = await account.queue("other", dead_letter_queue="orders")
    (consumer,) = await queue.result("GET", "/consumers")
    order = {"type": "http_pull", "dead_letter_queue": "other"}
    answer = refused(await queue.call("PUT", f"/consumers/{consumer['consumer_id']}", order))
    assert answer[:2] == (400, 100127)
    assert "would come back to it" in answer[2]
    assert (await queue.get())["consumers"] == [consumer]
    assert (await other.get())["consumers"][0]["dead_letter_queue"] == "orders"


async def test_a_second_consumer_is_refused(queue: Queue) -> None:
    before = await queue.get()
    for method, path in (("POST", "/consumers"), ("PUT", "/consumers/another")):
        for order in ({"type": "http_pull"}, {"type": "worker", "script_name": "w"}):
            answer = refused(await queue.call(method, path, order))
            assert answer == (400, 11004, "Queue 'orders' already has a consumer.")
    assert await queue.get() == before


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_consumer_that_is_not_there(queue: Queue, method: str) -> None:
    answer = refused(await queue.call(method, "/consumers/none"))
    assert answer == (404, 11000, "the queue has no consumer 'none'")


@pytest.mark.parametrize(("ours", "theirs"), [("eu", None), (None, "eu"), ("eu", "us")])
async def test_a_dead_letter_queue_of_another_jurisdiction_is_refused(
    account: Account, ours: str | None, theirs: str | None
) -> None:
    for name, jurisdiction in (("here", ours), ("there", theirs)):
        await account.result("POST", "/queues", {"queue_name": name, "jurisdiction": jurisdiction})
    order = {"type": "http_pull", "dead_letter_queue": "there"}
    status, code, sentence = refused(await account.call("POST", "/queues/here/consumers", order))
    assert (status, code) == (400, 100127)
    assert "choose a queue of the same jurisdiction" in sentence
    assert await account.result("GET", "/queues/here/consumers") == []


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
async def test_a_missing_subscription_is_called_a_subscription(account: Account, method: str) -> None:
    response = await account.call(method, "/event_subscriptions/subscriptions/gone", {})
    assert refused(response) == (404, 0, "the account has no event subscription 'gone'")
    assert "record" not in response.body.decode()
