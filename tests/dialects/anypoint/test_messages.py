"""The nine operations on messages and locks: exact paths, bodies, status codes."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND
from tests.support.anypoint import AnypointCaller, good, locks
from tests.support.inprocess import courier_app


@pytest.fixture
async def mq(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        caller = AnypointCaller(app)
        await caller.queue("orders")
        yield caller


# -- publish --------------------------------------------------------------------------------------------------


async def test_publishing_one_message_answers_201_with_its_id(mq: AnypointCaller) -> None:
    response = await mq.publish("orders", "m-1")
    assert response.status == 201
    assert response.json() == {
        "messageId": "m-1",
        "status": "successful",
        "statusMessage": "Message sent successfully",
    }


async def test_a_batch_answers_200_with_one_status_a_message(mq: AnypointCaller) -> None:
    batch = [{"headers": {"messageId": f"m-{n}"}, "body": "x"} for n in range(10)]
    response = await mq.broker("PUT", "orders", json=batch)
    assert response.status == 200
    assert [(one["messageId"], one["status"]) for one in response.json()] == [
        (f"m-{n}", "successful") for n in range(10)
    ]


@pytest.mark.parametrize("count", [0, 11])
async def test_a_batch_has_1_to_10_messages(mq: AnypointCaller, count: int) -> None:
    batch = [{"headers": {"messageId": str(n)}, "body": "x"} for n in range(count)]
    response = await mq.broker("PUT", "orders", json=batch)
    assert response.status == 400
    assert response.json()["status"] == "failure"
    assert "between 1 and 10" in response.json()["statusMessage"]
    assert await mq.consume("orders", 10) == []


async def test_a_message_that_is_refused_leaves_the_rest_of_its_batch_published(mq: AnypointCaller) -> None:
    batch = [
        {"headers": {"messageId": "good"}, "body": "x"},
        {"headers": {"messageId": "late", "deliveryDelay": 15 * MINUTE + 1}, "body": "x"},
        {"headers": {"messageId": "old", "ttl": 14 * DAY + 1}, "body": "x"},
        {"headers": {"messageId": "huge", "messageGroupId": "g" * 129}, "body": "x"},
        {"headers": {"messageId": "big"}, "properties": {"n": 2**64}, "body": "x"},
        {"headers": {"messageId": "i" * 257}, "body": "x"},
    ]
    outcomes = good(await mq.broker("PUT", "orders", json=batch))
    assert [one["status"] for one in outcomes] == ["successful"] + ["failure"] * 5
    assert "deliveryDelay" in outcomes[1]["statusMessage"]
    assert [one["headers"]["messageId"] for one in await mq.consume("orders", 10)] == ["good"]


async def test_a_batch_without_ids_gets_them_from_courier(mq: AnypointCaller) -> None:
    [outcome] = good(await mq.broker("PUT", "orders", json=[{"body": "x"}]))
    [message] = await mq.consume("orders")
    assert outcome["messageId"] == message["headers"]["messageId"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"{}",
        b'{"body": 5}',
        b'{"body": null}',
        b'{"body": "x", "headers": []}',
        b'{"body": "x", "properties": {"nested": {"a": 1}}}',
        b'{"body": "x", "properties": {"list": [1]}}',
        b'{"body": "\xff"}',
        b'{"body": "x", "properties": {"n": 1e999}}',
        b"[" * 100_000,
    ],
)
async def test_a_body_that_is_no_message_is_refused(mq: AnypointCaller, body: bytes) -> None:
    response = await mq.broker("PUT", "orders", "/m-1", body=body)
    assert response.status == 400
    assert response.json()["messageId"] == "m-1"
    assert response.json()["status"] == "failure"
    assert await mq.consume("orders") == []


async def test_an_id_may_be_the_word_locks(mq: AnypointCaller) -> None:
    assert (await mq.publish("orders", "locks")).status == 201
    [message] = await mq.consume("orders", lockTtl=1_000)
    assert message["headers"]["messageId"] == "locks"
    lock = f"/locks/locks/{message['headers']['lockId']}"
    assert (await mq.broker("PATCH", "orders", lock, json={"ttl": 60})).status == 200
    assert (await mq.broker("DELETE", "orders", lock)).status == 200


async def test_a_message_with_the_id_locks_can_be_acknowledged(mq: AnypointCaller) -> None:
    await mq.publish("orders", "locks")
    await mq.publish("orders", "m-1")
    message, other = await mq.consume("orders", 2)
    response = await mq.ack("orders", message)
    assert (response.status, response.json()["messageId"]) == (200, "locks")
    assert response.json()["statusMessage"] == "Acknowledgement operation successful"
    [given_back] = good(await mq.broker("DELETE", "orders", "/locks", json=locks([other])))
    assert (given_back["messageId"], given_back["status"]) == ("m-1", "successful")
    assert [one["headers"]["messageId"] for one in await mq.consume("orders", 2)] == ["m-1"]
    refused = await mq.broker("DELETE", "orders", "/locks", json={"lockId": message["headers"]["lockId"]})
    assert (refused.status, refused.json()["messageId"]) == (400, "locks")


async def test_an_id_may_hold_anything_that_fits_in_a_path(mq: AnypointCaller) -> None:
    assert (await mq.publish("orders", "a%2Fb%20%C3%A9%25")).status == 201
    [message] = await mq.consume("orders")
    assert message["headers"]["messageId"] == "a/b é%"


@pytest.mark.parametrize("visibility", ["NONE", "None", "none"])
async def test_the_case_of_a_payloads_visibility_does_not_matter(mq: AnypointCaller, visibility: str) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders", payloadVisibility=visibility)
    assert (message["body"], message["headers"]["payloadHidden"]) == ("", "true")


async def test_publishing_to_nowhere_is_404_with_the_vendors_sentence(mq: AnypointCaller) -> None:
    response = await mq.publish("nowhere", "m-1")
    assert response.status == 404
    assert response.json() == {"messageId": "m-1", "status": "failure", "statusMessage": "Destination not found"}


async def test_a_payload_over_10_mb_is_413(mq: AnypointCaller) -> None:
    response = await mq.publish("orders", "m-1", "x" * (10 * 1024 * 1024 + 1))
    assert response.status == 413
    assert response.json() == {"messageId": "m-1", "status": "failure", "statusMessage": "Payload too large"}


async def test_a_batch_of_nothing_but_oversize_payloads_is_413_with_a_status_each(mq: AnypointCaller) -> None:
    batch = [{"headers": {"messageId": "m-1"}, "body": "x" * (10 * 1024 * 1024 + 1)}]
    response = await mq.broker("PUT", "orders", json=batch)
    assert response.status == 413
    assert response.json() == [{"messageId": "m-1", "status": "failure", "statusMessage": "Payload too large"}]


async def test_an_oversize_payload_fails_alone_in_its_batch(mq: AnypointCaller) -> None:
    batch = [
        {"headers": {"messageId": "big"}, "body": "x" * (10 * 1024 * 1024 + 1)},
        {"headers": {"messageId": "small"}, "body": "x"},
    ]
    assert [one["status"] for one in good(await mq.broker("PUT", "orders", json=batch))] == ["failure", "successful"]


async def test_a_payload_of_10_mb_comes_back_whole(mq: AnypointCaller) -> None:
    payload = "é\n" * (10 * 1024 * 1024 // 3)
    assert (await mq.publish("orders", "m-1", payload)).status == 201
    [message] = await mq.consume("orders")
    assert message["body"] == payload


# -- consume --------------------------------------------------------------------------------------------------


async def test_a_consumed_message_has_string_headers_and_an_http_date(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1", properties={"contentType": "text/plain; charset=UTF-8", "n": 5})
    [message] = await mq.consume("orders")
    lock_id = message["headers"].pop("lockId")
    assert message == {
        "headers": {"messageId": "m-1", "created": "Tue, 14 Nov 2023 22:13:20 GMT", "deliveryCount": "1"},
        "properties": {"contentType": "text/plain; charset=UTF-8", "n": 5},
        "body": "hello",
    }
    assert lock_id.replace("-", "").replace("_", "").isalnum()


async def test_ttl_group_and_delay_come_back_as_strings(mq: AnypointCaller) -> None:
    headers = {"ttl": HOUR, "messageGroupId": "g", "deliveryDelay": "10000"}
    await mq.publish("orders", "m-1", headers=headers)
    mq.app.clock.advance(ms=10 * SECOND)
    [message] = await mq.consume("orders")
    assert message["headers"].items() >= {"ttl": "3600000", "messageGroupId": "g", "deliveryDelay": "10000"}.items()


async def test_properties_keep_their_types(mq: AnypointCaller) -> None:
    properties = {"text": "5", "whole": 5, "part": 5.5, "yes": True, "no": False, "empty": "", "nothing": None}
    await mq.publish("orders", "m-1", properties=properties)
    [message] = await mq.consume("orders")
    del properties["nothing"]
    assert message["properties"] == properties
    assert [type(value) for value in message["properties"].values()] == [str, int, float, bool, bool, str]


async def test_custom_headers_come_back_as_headers(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1", headers={"itemSize": 7, "color": "red"}, properties={"color": "blue"})
    [message] = await mq.consume("orders")
    assert message["headers"].items() >= {"itemSize": "7", "color": "red"}.items()
    assert message["properties"] == {"color": "blue"}


async def test_a_consumed_message_can_be_published_as_it_is(mq: AnypointCaller) -> None:
    await mq.queue("again")
    await mq.publish("orders", "m-1", headers={"ttl": HOUR, "x": "1"}, properties={"n": 1})
    [message] = await mq.consume("orders")
    assert (await mq.broker("PUT", "again", "/m-1", json=message)).status == 201
    [copy] = await mq.consume("again")
    for one in (message, copy):
        del one["headers"]["lockId"]
    assert copy == message


async def test_an_empty_queue_answers_204_without_a_body(mq: AnypointCaller) -> None:
    response = await mq.broker("GET", "orders", "?pollingTime=0")
    assert (response.status, response.body) == (204, b"")


async def test_consume_takes_one_message_unless_asked_for_more(mq: AnypointCaller) -> None:
    for n in range(12):
        await mq.publish("orders", str(n))
    assert len(good(await mq.broker("GET", "orders"))) == 1
    assert len(good(await mq.broker("GET", "orders", "?batchSize=10"))) == 10


@pytest.mark.parametrize(
    "query",
    [
        "pollingTime=-1",
        "pollingTime=20001",
        "pollingTime=soon",
        "batchSize=0",
        "batchSize=11",
        "lockTtl=-1",
        "lockTtl=86400001",
        "lockTtl=1e3",
        "payloadVisibility=some",
        "batchSize=99999999999999999999999999",
        "batchSize=%D9%A1",
        "batchSize=1_0",
        "batchSize=%205%20",
        "batchSize=%2B5",
        "lockTtl=1_000",
    ],
)
async def test_what_is_out_of_range_is_400_and_takes_nothing(mq: AnypointCaller, query: str) -> None:
    await mq.publish("orders", "m-1")
    response = await mq.broker("GET", "orders", f"?{query}")
    assert response.status == 400
    assert query.partition("=")[0] in response.json()["statusMessage"]
    [message] = await mq.consume("orders")
    assert message["headers"]["deliveryCount"] == "1"


async def test_unknown_query_parameters_are_ignored(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    assert len(good(await mq.broker("GET", "orders", "?poolingTime=99999&ackMode=none"))) == 1


async def test_a_head_takes_nothing(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    response = await mq.broker("HEAD", "orders")
    assert (response.status, response.headers["allow"]) == (405, "DELETE, GET, PUT")
    [message] = await mq.consume("orders")
    assert message["headers"]["deliveryCount"] == "1"


async def test_a_long_poll_is_woken_by_a_message(mq: AnypointCaller) -> None:
    waiting = asyncio.create_task(mq.consume("orders", pollingTime=20_000))
    await asyncio.sleep(0)
    await mq.publish("orders", "m-1")
    [message] = await waiting
    assert message["headers"]["messageId"] == "m-1"


async def test_payload_visibility_none_hides_the_body(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1", "secret")
    [message] = await mq.consume("orders", payloadVisibility="none")
    assert message["body"] == ""
    assert message["headers"]["payloadHidden"] == "true"


async def test_payload_visibility_conditional_hides_what_is_over_1_mb(mq: AnypointCaller) -> None:
    await mq.publish("orders", "small", "x" * 1024 * 1024)
    await mq.publish("orders", "large", "x" * (1024 * 1024 + 1))
    small, large = await mq.consume("orders", 2, payloadVisibility="conditional")
    assert len(small["body"]) == 1024 * 1024
    assert "payloadHidden" not in small["headers"]
    assert (large["body"], large["headers"]["payloadHidden"]) == ("", "true")


async def test_consuming_from_an_exchange_is_refused_with_the_vendors_sentence(mq: AnypointCaller) -> None:
    await mq.exchange("news")
    response = await mq.broker("GET", "news")
    assert response.status == 400
    assert response.json() == {"status": "failure", "statusMessage": "The destination should be a queue."}


async def test_without_a_lock_ttl_the_queue_decides(mq: AnypointCaller) -> None:
    await mq.queue("quick", defaultLockTtl=5_000)
    for name in ("quick", "orders"):
        await mq.publish(name, "m-1")
        await mq.consume(name)
    mq.app.clock.advance(ms=5_000)
    assert len(await mq.consume("quick")) == 1
    assert await mq.consume("orders") == []
    mq.app.clock.advance(ms=2 * MINUTE)
    assert len(await mq.consume("orders")) == 1


async def test_a_lock_lasts_up_to_a_day(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    assert len(await mq.consume("orders", lockTtl=DAY)) == 1
    mq.app.clock.advance(ms=DAY - 1)
    assert await mq.consume("orders") == []
    mq.app.clock.advance(ms=1)
    assert len(await mq.consume("orders")) == 1


async def test_a_message_is_gone_after_its_ttl(mq: AnypointCaller) -> None:
    await mq.publish("orders", "short", headers={"ttl": 1_000})
    await mq.publish("orders", "long")
    mq.app.clock.advance(ms=1_001)
    assert [one["headers"]["messageId"] for one in await mq.consume("orders", 10)] == ["long"]
    mq.app.clock.advance(ms=7 * DAY + 1)
    assert await mq.consume("orders", 10) == []


async def test_a_paused_queue_is_503_with_a_hint(mq: AnypointCaller) -> None:
    queue = mq.app.services.catalog.queue("default", "orders")
    settings = type(queue.settings)(paused=True)
    await mq.app.services.catalog.change_queue(queue, settings=settings, principal="test")
    response = await mq.broker("GET", "orders")
    assert response.status == 503
    assert response.headers["retry-after"] == "1"
    assert "paused" in response.json()["statusMessage"]


# -- settle ---------------------------------------------------------------------------------------------------


async def test_an_ack_deletes_the_message(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    response = await mq.ack("orders", message)
    assert response.status == 200
    assert response.json() == {
        "messageId": "m-1",
        "status": "successful",
        "statusMessage": "Acknowledgement operation successful",
    }
    mq.app.clock.advance(ms=HOUR)
    assert await mq.consume("orders") == []


async def test_an_ack_with_an_expired_lock_is_400_with_the_vendors_sentence(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders", lockTtl=1_000)
    mq.app.clock.advance(ms=1_000)
    response = await mq.ack("orders", message)
    assert response.status == 400
    assert response.json() == {
        "messageId": "m-1",
        "status": "failure",
        "statusMessage": f"LockId: {message['headers']['lockId']} provided is expired",
    }
    assert len(await mq.consume("orders")) == 1


async def test_a_second_ack_fails_as_expired(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    await mq.ack("orders", message)
    response = await mq.ack("orders", message)
    assert response.status == 400
    assert "is expired" in response.json()["statusMessage"]


async def test_a_lock_that_was_never_given_out_is_invalid(mq: AnypointCaller) -> None:
    response = await mq.broker("DELETE", "orders", "/m-1", json={"lockId": "AQEB{0}/+="})
    assert response.status == 400
    assert response.json()["statusMessage"] == "LockId: AQEB{0}/+= provided is invalid"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"lockId": null}', b'{"lockId": ""}'])
async def test_an_ack_without_a_lock_is_400(mq: AnypointCaller, body: bytes) -> None:
    await mq.publish("orders", "m-1")
    response = await mq.broker("DELETE", "orders", "/m-1", body=body)
    assert response.status == 400
    assert "lockId is required" in response.json()["statusMessage"]
    assert len(await mq.consume("orders")) == 1


async def test_the_lock_decides_whatever_the_message_id_says(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    message["headers"]["messageId"] = "another"
    assert good(await mq.ack("orders", message))["messageId"] == "another"
    mq.app.clock.advance(ms=HOUR)
    assert await mq.consume("orders") == []


async def test_a_nack_gives_the_message_back_at_once_and_counts(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    response = await mq.nack("orders", message)
    assert response.status == 200
    assert response.json()["statusMessage"] == "Negative acknowledgement operation successful"
    [again] = await mq.consume("orders")
    assert again["headers"]["deliveryCount"] == "2"
    assert (await mq.nack("orders", message)).status == 400


@pytest.mark.parametrize("ttl", ["1e300", "9" * 1_000])
async def test_a_number_that_is_far_out_of_range_is_cut_in_the_answer(mq: AnypointCaller, ttl: str) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    lock = message["headers"]["lockId"]
    body = b'[{"messageId": "m-1", "lockId": "%b", "ttl": %b}]' % (lock.encode(), ttl.encode())
    [outcome] = good(await mq.broker("PATCH", "orders", "/locks", body=body))
    assert outcome["status"] == "failure"
    assert outcome["statusMessage"].startswith("ttl is ")
    assert len(outcome["statusMessage"]) < 100


async def test_a_batch_ack_answers_for_each_lock_and_leaves_the_good_ones_done(mq: AnypointCaller) -> None:
    for n in range(3):
        await mq.publish("orders", f"m-{n}")
    messages = await mq.consume("orders", 3)
    await mq.ack("orders", messages[1])
    asked = [*locks(messages), {"messageId": "m-9", "lockId": "junk"}, {"messageId": "m-8"}, {}]
    outcomes = good(await mq.broker("DELETE", "orders", json=asked))
    assert [(one["messageId"], one["status"]) for one in outcomes] == [
        ("m-0", "successful"),
        ("m-1", "failure"),
        ("m-2", "successful"),
        ("m-9", "failure"),
        ("m-8", "failure"),
        ("", "failure"),
    ]
    mq.app.clock.advance(ms=HOUR)
    assert await mq.consume("orders", 10) == []


async def test_a_batch_nack_gives_all_back(mq: AnypointCaller) -> None:
    for n in range(3):
        await mq.publish("orders", f"m-{n}")
    outcomes = good(await mq.broker("DELETE", "orders", "/locks", json=locks(await mq.consume("orders", 3))))
    assert [one["status"] for one in outcomes] == ["successful"] * 3
    assert [one["headers"]["deliveryCount"] for one in await mq.consume("orders", 3)] == ["2"] * 3


async def test_a_lock_can_be_made_to_last_longer(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders", lockTtl=1_000)
    response = await mq.broker("PATCH", "orders", f"/m-1/locks/{message['headers']['lockId']}", json={"ttl": 60})
    assert response.status == 200
    assert response.json() == {
        "messageId": "m-1",
        "status": "successful",
        "statusMessage": "Lock TTL modification successful",
    }
    mq.app.clock.advance(ms=MINUTE - 1)
    assert await mq.consume("orders") == []
    assert (await mq.ack("orders", message)).status == 200


@pytest.mark.parametrize("ttl", ["60", 60.0])
async def test_a_ttl_is_read_however_it_is_written(mq: AnypointCaller, ttl: object) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders", lockTtl=1_000)
    path = f"/m-1/locks/{message['headers']['lockId']}"
    assert (await mq.broker("PATCH", "orders", path, json={"ttl": ttl})).status == 200
    [outcome] = good(await mq.broker("PATCH", "orders", "/locks", json=locks([message], ttl=ttl)))
    assert outcome["status"] == "successful"
    mq.app.clock.advance(ms=MINUTE - 1)
    assert await mq.consume("orders") == []


async def test_locks_can_be_made_to_last_longer_in_a_batch(mq: AnypointCaller) -> None:
    for n in range(2):
        await mq.publish("orders", f"m-{n}")
    messages = await mq.consume("orders", 2, lockTtl=1_000)
    asked = [*locks(messages, ttl=60), {"messageId": "m-9", "lockId": "junk", "ttl": 60}, *locks(messages[:1], ttl=-1)]
    outcomes = good(await mq.broker("PATCH", "orders", "/locks", json=asked))
    assert [one["status"] for one in outcomes] == ["successful", "successful", "failure", "failure"]
    assert [one["lockId"] for one in outcomes] == [one["lockId"] for one in asked]
    mq.app.clock.advance(ms=MINUTE - 1)
    assert await mq.consume("orders") == []


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"ttl": "soon"}', b'{"ttl": -1}', b'{"ttl": 1.5}', b'{"ttl": 43200001}']
)
async def test_a_ttl_that_makes_no_sense_is_400(mq: AnypointCaller, body: bytes) -> None:
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders", lockTtl=1_000)
    response = await mq.broker("PATCH", "orders", f"/m-1/locks/{message['headers']['lockId']}", body=body)
    assert response.status == 400
    assert response.json()["status"] == "failure"
    mq.app.clock.advance(ms=1_000)
    assert len(await mq.consume("orders")) == 1


async def test_a_lock_of_one_queue_settles_nothing_in_another(mq: AnypointCaller) -> None:
    await mq.queue("other")
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    assert (await mq.ack("other", message)).status == 400
    assert (await mq.ack("orders", message)).status == 200


async def test_a_long_poll_on_a_queue_that_is_deleted_ends_at_once(mq: AnypointCaller) -> None:
    polls = [asyncio.create_task(mq.broker("GET", "orders", "?pollingTime=20000")) for _ in range(3)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert not any(poll.done() for poll in polls)
    assert (await mq.admin("DELETE", "/destinations/queues/orders")).status == 204
    for response in await asyncio.gather(*polls):
        assert (response.status, response.json()["statusMessage"]) == (404, "Destination not found")
