"""Leases, acks, retries and dead letters through the Cloudflare dialect."""

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


async def test_an_acked_message_is_gone_and_warnings_are_absent(queue: Queue) -> None:
    await queue.push({"n": 1})
    message = await queue.pull_one()
    assert await queue.ack(message["lease_id"]) == {"ackCount": 1, "retryCount": 0}
    assert await queue.count() == 0


async def test_acks_and_retries_may_be_mixed_in_one_call(queue: Queue) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(3)])
    first, second, third = await queue.pull()
    order = {
        "acks": [{"lease_id": first["lease_id"]}, {"lease_id": third["lease_id"]}],
        "retries": [{"lease_id": second["lease_id"]}],
    }
    assert await queue.result("POST", "/messages/ack", order) == {"ackCount": 2, "retryCount": 1}
    again = await queue.pull_one()
    assert (again["id"], again["attempts"]) == (second["id"], 2)


async def test_settling_nothing_counts_nothing(queue: Queue) -> None:
    orders: tuple[dict[str, Any], ...] = ({}, {"acks": []}, {"acks": None, "retries": []})
    for order in orders:
        assert await queue.result("POST", "/messages/ack", order) == {"ackCount": 0, "retryCount": 0}


async def test_a_leased_message_is_shown_to_nobody_else_until_the_lease_ends(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    first = await queue.pull_one()
    account.clock.advance(ms=29_999)
    assert await queue.pull() == []
    account.clock.advance(ms=1)
    again = await queue.pull_one()
    assert (again["id"], again["attempts"]) == (first["id"], 2)
    assert again["lease_id"] != first["lease_id"]


async def test_the_consumer_sets_how_long_a_lease_lasts(account: Account) -> None:
    queue = await account.queue("short", visibility_timeout_ms=1_000)
    await queue.push({"n": 1})
    await queue.pull_one()
    account.clock.advance(ms=1_000)
    assert (await queue.pull_one())["attempts"] == 2


async def test_a_retry_waits_as_it_says_else_as_the_consumer_says(account: Account) -> None:
    queue = await account.queue("patient", retry_delay=60)
    await queue.push_batch({"body": {"n": 1}}, {"body": {"n": 2}}, {"body": {"n": 3}})
    leases = [message["lease_id"] for message in await queue.pull()]
    retries = [
        {"lease_id": leases[0]},
        {"lease_id": leases[1], "delay_seconds": 10},
        {"lease_id": leases[2], "delay_seconds": 0},
    ]
    await queue.result("POST", "/messages/ack", {"retries": retries})
    bodies = []
    for ms in (0, 10_000, 50_000):
        account.clock.advance(ms=ms)
        bodies.append([message["body"] for message in await queue.pull(visibility_timeout_ms=600_000)])
    assert bodies == [['{"n":3}'], ['{"n":2}'], ['{"n":1}']]


async def test_a_late_ack_of_a_message_that_still_exists_counts(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    message = await queue.pull_one()
    account.clock.advance(ms=30_001)
    assert await queue.ack(message["lease_id"]) == {"ackCount": 1, "retryCount": 0}
    assert await queue.count() == 0


async def test_a_late_ack_takes_the_message_from_whoever_holds_it_now(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    first = await queue.pull_one()
    account.clock.advance(ms=30_001)
    second = await queue.pull_one()
    assert await queue.ack(first["lease_id"]) == {"ackCount": 1, "retryCount": 0}
    assert await queue.count() == 0
    late = await queue.ack(second["lease_id"])
    assert (late["ackCount"], list(late["warnings"])) == (1, [second["lease_id"]])


async def test_acking_twice_is_no_error_but_is_warned_of(queue: Queue) -> None:
    await queue.push({"n": 1})
    lease_id = (await queue.pull_one())["lease_id"]
    await queue.ack(lease_id)
    again = await queue.ack(lease_id)
    assert again["ackCount"] == 1
    assert "settled" in again["warnings"][lease_id]


async def test_a_late_retry_counts_while_nobody_else_holds_the_message(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    first = await queue.pull_one()
    account.clock.advance(ms=30_001)
    assert await queue.retry(first["lease_id"], delay_seconds=600) == {"ackCount": 0, "retryCount": 1}
    account.clock.advance(ms=599_999)
    assert await queue.pull() == []
    account.clock.advance(ms=1)
    assert (await queue.pull_one())["attempts"] == 2


async def test_a_late_retry_changes_nothing_once_another_holds_the_message(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    first = await queue.pull_one()
    account.clock.advance(ms=30_001)
    second = await queue.pull_one()
    late = await queue.retry(first["lease_id"], delay_seconds=600)
    assert (late["retryCount"], list(late["warnings"])) == (1, [first["lease_id"]])
    assert await queue.ack(second["lease_id"]) == {"ackCount": 1, "retryCount": 0}


async def test_a_lease_id_that_was_never_given_out_settles_nothing(queue: Queue, account: Account) -> None:
    other = await account.queue("other")
    await queue.push({"n": 1})
    await other.push({"n": 2})
    mine, foreign = (await queue.pull_one())["lease_id"], (await other.pull_one())["lease_id"]
    altered = ("A" if mine[0] != "A" else "B") + mine[1:]
    result = await queue.ack(altered, foreign, "made-up", "")
    assert result["ackCount"] == 0
    assert set(result["warnings"]) == {altered, foreign, "made-up", ""}
    assert (await queue.count(), await other.count()) == (1, 1)


@pytest.mark.parametrize("max_retries", [0, 1, 3])
async def test_a_message_is_delivered_once_more_than_max_retries_says(account: Account, max_retries: int) -> None:
    queue = await account.queue("flaky", max_retries=max_retries, dead_letter_queue="graveyard")
    graveyard = Queue(account, "graveyard", "graveyard")
    await graveyard.consume()
    await queue.push({"n": 1})
    attempts = []
    for _ in range(max_retries + 1):
        message = await queue.pull_one()
        attempts.append(message["attempts"])
        retried = await queue.retry(message["lease_id"])
        exhausted = {"warnings": {message["lease_id"]: "Message has exhausted maxRetries"}}
        last = message["attempts"] == max_retries + 1
        assert retried == {"ackCount": 0, "retryCount": 1} | (exhausted if last else {})
    assert attempts == list(range(1, max_retries + 2))
    assert await queue.pull() == []
    dead = await graveyard.pull_one()
    assert (dead["id"], dead["body"], dead["attempts"]) == (message["id"], '{"n":1}', 1)
    assert dead["timestamp_ms"] == message["timestamp_ms"]


async def test_a_lease_that_ends_uses_up_an_attempt(account: Account) -> None:
    queue = await account.queue("flaky", max_retries=1, dead_letter_queue="graveyard")
    await queue.push({"n": 1})
    for _ in range(2):
        await queue.pull_one(visibility_timeout_ms=1_000)
        account.clock.advance(ms=1_000)
    assert await queue.pull() == []
    assert await Queue(account, "graveyard", "graveyard").count() == 1


async def test_without_a_dead_letter_queue_a_message_is_deleted_in_the_end(account: Account) -> None:
    queue = await account.queue("flaky", max_retries=0)
    await queue.push({"n": 1})
    await queue.retry((await queue.pull_one())["lease_id"])
    assert (await queue.pull(), await account.backlog_count()) == ([], 0)


async def test_a_paused_queue_takes_messages_and_refuses_to_give_them(queue: Queue) -> None:
    await queue.result("PATCH", "", {"settings": {"delivery_paused": True}})
    await queue.push({"n": 1})
    response = await queue.call("POST", "/messages/pull", {})
    assert refused(response) == (409, 0, "queue_delivery_paused")
    assert response.headers["x-should-retry"] == "false"
    assert response.json()["messages"] == ["queue 'orders' is paused; resume it to receive"]
    assert len(await queue.peek()) == 1
    await queue.result("PATCH", "", {"settings": {"delivery_paused": False}})
    assert len(await queue.pull()) == 1


async def test_a_message_grows_old_while_its_queue_is_paused(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    await queue.result("PATCH", "", {"settings": {"delivery_paused": True, "message_retention_period": 60}})
    account.clock.advance(ms=60_001)
    assert await queue.count() == 0


async def test_what_was_pulled_before_a_pause_can_still_be_settled(queue: Queue) -> None:
    await queue.push({"n": 1})
    message = await queue.pull_one()
    await queue.result("PATCH", "", {"settings": {"delivery_paused": True}})
    assert await queue.ack(message["lease_id"]) == {"ackCount": 1, "retryCount": 0}


async def test_leases_outlive_a_restart(tmp_path: Path) -> None:
    async with cloudflare_account(tmp_path / "store") as account:
        queue = await account.queue()
        await queue.push({"n": 1})
        message = await queue.pull_one()
    async with cloudflare_account(tmp_path / "store") as account:
        reopened = Queue(account, queue.id, queue.name)
        assert await reopened.pull() == []
        assert await reopened.ack(message["lease_id"]) == {"ackCount": 1, "retryCount": 0}
        assert await reopened.count() == 0
