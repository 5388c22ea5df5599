"""Acks of any size: as many leases as fit, and whole messages in place of their lease ids."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.dialects.cloudflare import limits
from tests.support.cloudflare import Queue, cloudflare_account, refused


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


async def leased(queue: Queue, count: int) -> list[str]:
    leases: list[str] = []
    for _ in range(count // 100):
        await queue.push_batch(*[{"body": {"n": n}} for n in range(100)])
        leases += [message["lease_id"] for message in await queue.pull(batch_size=100)]
    return leases


async def test_one_call_settles_thousands_of_leases(queue: Queue) -> None:
    leases = await leased(queue, 2_500)
    order = {
        "acks": [{"lease_id": lease_id} for lease_id in leases[:1_600]],
        "retries": [{"lease_id": lease_id, "delay_seconds": 60} for lease_id in leases[1_600:]],
    }
    assert await queue.result("POST", "/messages/ack", order) == {"ackCount": 1_600, "retryCount": 900}
    assert await queue.count() == 900
    assert await queue.pull() == []


async def test_a_bad_lease_among_thousands_costs_no_other(queue: Queue) -> None:
    leases = [*await leased(queue, 1_100), "made-up"]
    answer = await queue.ack(*leases)
    assert (answer["ackCount"], list(answer["warnings"])) == (1_100, ["made-up"])


async def test_pulled_messages_may_be_sent_back_whole(queue: Queue) -> None:
    for _ in range(40):
        await queue.push_batch(*[{"body": "x" * 60_000, "content_type": "text"} for _ in range(4)])
    messages = await queue.pull(batch_size=100)
    assert sum(len(message["body"]) for message in messages) > limits.CONTROL_REQUEST_BYTES
    half = len(messages) // 2
    order = {"acks": messages[:half], "retries": [{**one, "delay_seconds": 5} for one in messages[half:]]}
    assert await queue.result("POST", "/messages/ack", order) == {
        "ackCount": half,
        "retryCount": len(messages) - half,
    }


async def test_the_largest_answer_to_a_pull_fits_into_an_ack(queue: Queue) -> None:
    """Control characters take six bytes each in JSON."""
    for _ in range(60):
        await queue.push_batch(*[{"body": "\x01" * 127_000, "content_type": "text"} for _ in range(2)])
    response = await queue.call("POST", "/messages/pull", {"batch_size": 100})
    assert len(response.body) > 40 * 1024 * 1024
    messages = response.json()["result"]["messages"]
    answer = await queue.result("POST", "/messages/ack", {"acks": messages})
    assert answer == {"ackCount": len(messages), "retryCount": 0}


async def test_an_ack_that_is_larger_than_any_pull_is_refused(queue: Queue) -> None:
    body = b'{"acks": []' + b" " * limits.ACK_REQUEST_BYTES + b"}"
    assert refused(await queue.call("POST", "/messages/ack", body=body))[:2] == (413, 10204)
