"""Pushing, pulling and peeking through the Cloudflare dialect."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from couriermq.core.lifecycle import browse
from couriermq.dialects.cloudflare import limits
from tests.support.cloudflare import Account, Queue, accepted, cloudflare_account


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


async def test_a_pushed_text_comes_back_as_the_same_string(queue: Queue) -> None:
    await queue.push("grüße, «queue»", content_type="text")
    message = await queue.pull_one()
    assert message["body"] == "grüße, «queue»"
    assert message["metadata"] == {"CF-Content-Type": "text", "CF-sourceMessageSource": "api"}


@pytest.mark.parametrize("body", [{"a": [1, 2.5, None]}, [1, 2], 5, True, None, {}])
async def test_pushed_json_comes_back_as_json_text(queue: Queue, body: object) -> None:
    await queue.push(body)
    message = await queue.pull_one()
    assert msgspec.json.decode(message["body"]) == body
    assert message["metadata"]["CF-Content-Type"] == "json"


async def test_json_keeps_the_spelling_in_which_it_was_sent(queue: Queue) -> None:
    accepted(await queue.call("POST", "/messages", body=b'{"body": {"b" : 1.0,\n "a":1e3, "b":2} }'))
    assert (await queue.pull_one())["body"] == '{"b" : 1.0,\n "a":1e3, "b":2}'


async def test_bytes_travel_as_base64_in_both_directions(queue: Queue) -> None:
    await queue.push_batch({"body": "AP8=", "content_type": "bytes"}, {"body": "/w8=", "content_type": "v8"})
    messages = await queue.pull()
    assert [(m["body"], m["metadata"]["CF-Content-Type"]) for m in messages] == [("AP8=", "bytes"), ("/w8=", "v8")]


async def test_a_server_may_show_json_as_base64(tmp_path: Path) -> None:
    async with cloudflare_account(tmp_path, json_body="base64") as account:
        queue = await account.queue()
        await queue.push({"a": 1})
        await queue.push("plain", content_type="text")
        assert [m["body"] for m in await queue.peek()] == ["eyJhIjoxfQ==", "plain"]
        assert [m["body"] for m in await queue.pull()] == ["eyJhIjoxfQ==", "plain"]


async def test_a_pulled_message_has_everything_that_the_vendor_gives(queue: Queue, account: Account) -> None:
    sent_at = account.clock.now()
    await queue.push({"n": 1})
    account.clock.advance(ms=500)
    pulled = await queue.result("POST", "/messages/pull", {"batch_size": 1})
    (message,) = pulled["messages"]
    assert set(message) == {"id", "body", "attempts", "timestamp_ms", "metadata", "lease_id"}
    assert len(message["id"]) == 32
    assert (message["attempts"], message["timestamp_ms"]) == (1, sent_at)
    assert pulled["message_backlog_count"] == 1


async def test_an_empty_queue_answers_a_pull_at_once_with_no_messages(queue: Queue) -> None:
    pulled = await queue.result("POST", "/messages/pull", {})
    assert (pulled["messages"], pulled["message_backlog_count"]) == ([], 0)
    assert pulled["metadata"]["metrics"] == {
        "backlog_bytes": 0,
        "backlog_count": 0,
        "oldest_message_timestamp_ms": 0,
    }


async def test_every_answer_carries_the_backlog_as_it_is_at_that_moment(queue: Queue, account: Account) -> None:
    first_at = account.clock.now()
    assert (await queue.push({"n": 1}))["metadata"]["metrics"] == {
        "backlog_bytes": len('{"n":1}'),
        "backlog_count": 1,
        "oldest_message_timestamp_ms": first_at,
    }
    account.clock.advance(ms=1_000)
    batch = await queue.push_batch({"body": {"n": 2}, "delay_seconds": 60}, {"body": "three", "content_type": "text"})
    assert batch["metadata"]["metrics"]["backlog_count"] == 3
    pulled = await queue.result("POST", "/messages/pull", {"batch_size": 1})
    assert pulled["message_backlog_count"] == pulled["metadata"]["metrics"]["backlog_count"] == 3
    await queue.ack(pulled["messages"][0]["lease_id"])
    assert await queue.metrics() == {
        "backlog_bytes": len('{"n":2}') + len("three"),
        "backlog_count": 2,
        "oldest_message_timestamp_ms": first_at + 1_000,
    }


async def test_a_body_is_read_as_json_whatever_its_content_type_says(queue: Queue) -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}
    accepted(await queue.call("POST", "/messages", body=b'{"body":{"a":1}}', headers=form))
    accepted(await queue.call("POST", "/messages", body=b'{"body":{"a":2}}'))
    assert await queue.count() == 2


@pytest.mark.parametrize("path", ["/messages/pull", "/messages/peek", "/messages/ack", "/messages/preview"])
async def test_a_call_whose_parts_are_all_optional_needs_no_body(queue: Queue, path: str) -> None:
    accepted(await queue.call("POST", path))
    accepted(await queue.call("POST", path, {}))


async def test_a_pull_gets_five_messages_unless_it_or_the_consumer_says_otherwise(account: Account) -> None:
    plain, sized = await account.queue("plain"), await account.queue("sized", batch_size=7)
    for queue in (plain, sized):
        await queue.push_batch(*[{"body": {"n": n}} for n in range(30)])
    assert (len(await plain.pull()), len(await sized.pull())) == (5, 7)
    assert len(await plain.pull(batch_size=12)) == 12


async def test_numbers_may_be_spelled_as_floats(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1}, delay_seconds=1.0)
    assert await queue.pull(batch_size=3.0, visibility_timeout_ms=1e3) == []
    account.clock.advance(ms=1_000)
    assert len(await queue.pull(batch_size=3.0, visibility_timeout_ms=1e3)) == 1
    account.clock.advance(ms=1_000)
    assert (await queue.pull_one())["attempts"] == 2


async def test_the_old_name_of_the_visibility_timeout_is_understood(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    await queue.pull(visibility_timeout=2_000)
    account.clock.advance(ms=1_999)
    assert await queue.pull() == []
    account.clock.advance(ms=1)
    assert (await queue.pull_one())["attempts"] == 2


async def test_a_message_that_was_delayed_says_so(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1}, delay_seconds=20)
    account.clock.advance(ms=20_000)
    message = await queue.pull_one()
    assert message["metadata"]["CF-msg-delay-secs"] == "20"


@pytest.mark.parametrize(
    ("message_delay", "batch_delay", "due_after_s"),
    [(10, 20, 10), (None, 20, 20), (0, 20, 0), (None, 0, 0), (None, None, 30), (0, None, 0)],
)
async def test_a_delay_of_the_message_wins_over_the_batch_and_that_over_the_queue(
    queue: Queue, account: Account, message_delay: int | None, batch_delay: int | None, due_after_s: int
) -> None:
    await queue.result("PATCH", "", {"settings": {"delivery_delay": 30}})
    message = {"body": {"n": 1}} | ({} if message_delay is None else {"delay_seconds": message_delay})
    await queue.push_batch(message, **({} if batch_delay is None else {"delay_seconds": batch_delay}))
    if due_after_s:
        account.clock.advance(ms=due_after_s * 1_000 - 1)
        assert await queue.pull() == []
        account.clock.advance(ms=1)
    assert len(await queue.pull()) == 1


async def test_a_message_is_dropped_when_its_retention_ends(queue: Queue, account: Account) -> None:
    await queue.result("PATCH", "", {"settings": {"message_retention_period": 60}})
    await queue.push({"n": 1})
    account.clock.advance(ms=60_001)
    assert await queue.pull() == []
    assert await queue.count() == 0


async def test_peeking_takes_no_lease_and_counts_no_attempt(queue: Queue) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(8)])
    peeked = await queue.peek()
    assert [msgspec.json.decode(m["body"])["n"] for m in peeked] == [0, 1, 2, 3, 4]
    assert set(peeked[0]) == {"id", "body", "attempts", "timestamp_ms", "metadata", "ref"}
    assert peeked[0]["attempts"] == 0
    assert len(await queue.pull(batch_size=100)) == 8


async def test_peeking_shows_what_waits_and_skips_what_somebody_holds(queue: Queue) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(4)])
    await queue.pull(batch_size=2)
    await queue.push({"n": 4}, delay_seconds=60)
    assert [msgspec.json.decode(m["body"])["n"] for m in await queue.peek(batch_size=3)] == [2, 3, 4]


async def test_peeking_goes_on_behind_messages_that_somebody_holds(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(5)])
    await queue.pull(batch_size=4)
    monkeypatch.setattr(browse, "SCAN_COUNT", 2)
    assert [msgspec.json.decode(m["body"])["n"] for m in await queue.peek()] == [4]


async def test_peeking_ends_where_too_many_messages_are_held(
    queue: Queue, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(limits.PEEK_BROWSES * 2 + 1)])
    await queue.pull(batch_size=limits.PEEK_BROWSES * 2)
    monkeypatch.setattr(browse, "SCAN_COUNT", 2)
    assert await queue.peek() == []
    assert len(await queue.pull(batch_size=100)) == 1


async def test_the_messages_of_a_peek_are_limited_in_bytes(queue: Queue, account: Account) -> None:
    path = "/courier/v1/tenants/default/queues"
    large = {"settings": {"max_body_bytes": 10_000_000}}
    assert (await account.app.request("PATCH", f"{path}/{queue.name}", json=large)).status == 200
    for letter in "abc":
        assert (await account.app.post(f"{path}/{queue.name}/messages", {"body": letter * 5_000_000})).status == 201
    assert [message["body"][0] for message in await queue.peek()] == ["a"]


async def test_a_peeked_message_can_be_purged_by_its_ref(queue: Queue) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(3)])
    refs = [message["ref"] for message in await queue.peek()]
    assert await queue.result("POST", "/messages/purge", {"refs": [{"ref": refs[1]}]}) == {}
    assert [msgspec.json.decode(m["body"])["n"] for m in await queue.pull()] == [0, 2]


async def test_a_ref_that_purges_nothing_is_warned_of(queue: Queue, account: Account) -> None:
    other = await account.queue("other")
    await queue.push({"n": 1})
    await other.push({"n": 2})
    (mine,), (foreign,) = await queue.peek(), await other.peek()
    await queue.ack((await queue.pull_one())["lease_id"])
    refs = [mine["ref"], foreign["ref"], "made-up"]
    result = await queue.result("POST", "/messages/purge", {"refs": [{"ref": ref} for ref in refs]})
    assert result["warnings"] == {
        mine["ref"]: "the message was no longer in the queue",
        foreign["ref"]: "the ref is not one that this queue handed out",
        "made-up": "the ref is not one that this queue handed out",
    }
    assert await other.count() == 1


async def test_nothing_is_missing_from_a_batch_of_one_hundred(queue: Queue) -> None:
    await queue.push_batch(*[{"body": {"n": n}} for n in range(100)])
    pulled = await queue.pull(batch_size=100)
    assert sorted(msgspec.json.decode(m["body"])["n"] for m in pulled) == list(range(100))
    assert len({m["lease_id"] for m in pulled}) == len({m["id"] for m in pulled}) == 100


async def test_a_queue_may_be_named_instead_of_its_id(account: Account, queue: Queue) -> None:
    await account.result("POST", "/queues/orders/messages", {"body": {"n": 1}})
    assert await queue.count() == 1


async def test_a_pull_returns_and_leases_no_more_than_fits_one_response(queue: Queue) -> None:
    large = [{"body": "x" * 127_000, "content_type": "text"}] * 2
    for _ in range(40):
        await queue.push_batch(*large)
    first = await queue.pull(batch_size=100)
    assert 60 <= len(first) < 80
    assert len(await queue.pull(batch_size=100)) == 80 - len(first)
