"""Where the vendor's documents contradict each other: what Courier decided, in the lenient and in the strict mode."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.config import AnypointSettings, DialectSettings
from couriermq.core.errors import Invalid
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, Action, Scope
from couriermq.dialects.anypoint.consuming import lock_ms
from couriermq.dialects.anypoint.dates import read_date
from tests.support.anypoint import AnypointCaller, good, locks
from tests.support.inprocess import courier_app


@pytest.fixture
async def mq(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    async with courier_app(tmp_path / "lenient", clock=FakeClock()) as app:
        caller = AnypointCaller(app)
        await caller.queue("orders")
        yield caller


@pytest.fixture
async def strict(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    settings = DialectSettings(anypoint=AnypointSettings(mode="strict", regions=("us-east-1", "us-east-2")))
    async with courier_app(tmp_path / "strict", clock=FakeClock(), dialect_settings=settings) as app:
        caller = AnypointCaller(app)
        await caller.queue("orders")
        yield caller


async def with_scope(mq: AnypointCaller, action: Action) -> AnypointCaller:
    _, token = await mq.app.services.catalog.create_credential(
        "default", "app", scopes=[Scope(action)], principal="test"
    )
    return AnypointCaller(mq.app, token=token)


# 1. The longest lock: 24 hours (broker specification) or 12 (queue settings).


async def test_a_consumer_may_lock_for_24_hours_but_a_queue_defaults_to_12_at_most(
    mq: AnypointCaller, strict: AnypointCaller
) -> None:
    for caller in (mq, strict):
        await caller.publish("orders", "m-1")
        assert len(await caller.consume("orders", lockTtl=DAY)) == 1
        response = await caller.admin("PATCH", "/destinations/queues/orders", json={"defaultLockTtl": 12 * HOUR + 1})
        assert response.status == 400


# 2. The unit of the TTL in a PATCH of a lock: seconds (its text) or milliseconds (everything else).


@pytest.mark.parametrize(
    ("unit", "ttl", "expected"),
    [
        ("auto", 0, 0),
        ("auto", 1_000, 1_000 * SECOND),
        ("auto", 43_200, 12 * HOUR),
        ("auto", 43_201, 43_201),
        ("auto", 60_000, MINUTE),
        ("auto", 43_200_000, 12 * HOUR),
        ("seconds", 43_200, 12 * HOUR),
        ("milliseconds", 1_000, 1_000),
        ("milliseconds", 43_200_000, 12 * HOUR),
    ],
)
def test_a_ttl_is_read_in_its_unit(unit: str, ttl: int, expected: int) -> None:
    assert lock_ms(ttl, unit) == expected


@pytest.mark.parametrize(
    ("unit", "ttl"), [("auto", 43_200_001), ("seconds", 43_201), ("milliseconds", 43_200_001), ("seconds", -1)]
)
def test_a_ttl_over_12_hours_is_refused_in_every_unit(unit: str, ttl: int) -> None:
    with pytest.raises(Invalid):
        lock_ms(ttl, unit)


async def test_strict_takes_every_ttl_for_seconds(mq: AnypointCaller, strict: AnypointCaller) -> None:
    for caller, status in ((mq, 200), (strict, 400)):
        await caller.publish("orders", "m-1")
        [message] = await caller.consume("orders")
        path = f"/m-1/locks/{message['headers']['lockId']}"
        assert (await caller.broker("PATCH", "orders", path, json={"ttl": 60_000})).status == status


async def test_the_unit_can_be_set(tmp_path: Path) -> None:
    settings = DialectSettings(anypoint=AnypointSettings(lock_ttl_unit="milliseconds"))
    async with courier_app(tmp_path, clock=FakeClock(), dialect_settings=settings) as app:
        mq = AnypointCaller(app)
        await mq.queue("orders")
        await mq.publish("orders", "m-1")
        [message] = await mq.consume("orders")
        await mq.broker("PATCH", "orders", f"/m-1/locks/{message['headers']['lockId']}", json={"ttl": 1_000})
        app.clock.advance(ms=1_000)
        assert len(await mq.consume("orders")) == 1


# 3. The scope for changing a lock: the publisher's (text) or the subscriber's (sense).


async def test_changing_a_lock_needs_either_scope_or_strictly_the_publishers(
    mq: AnypointCaller, strict: AnypointCaller
) -> None:
    body = [{"messageId": "m", "lockId": "x", "ttl": 1}]
    for caller, action, status in (
        (mq, Action.SEND, 200),
        (mq, Action.RECEIVE, 200),
        (strict, Action.SEND, 200),
        (strict, Action.RECEIVE, 403),
    ):
        limited = await with_scope(caller, action)
        assert (await limited.broker("PATCH", "orders", "/locks", json=body)).status == status


# 4. What a batch of acks answers: an array (text) or one object (schema).


async def test_a_batch_of_acks_answers_an_array_or_strictly_the_first_failure(
    mq: AnypointCaller, strict: AnypointCaller
) -> None:
    for caller in (mq, strict):
        for n in range(3):
            await caller.publish("orders", f"m-{n}")
    first, *rest = await mq.consume("orders", 3)
    assert [one["status"] for one in good(await mq.broker("DELETE", "orders", json=locks(rest)))] == ["successful"] * 2
    assert [one["status"] for one in good(await mq.broker("DELETE", "orders", "/locks", json=locks([first])))] == [
        "successful"
    ]
    first, *rest = await strict.consume("orders", 3)
    assert good(await strict.broker("DELETE", "orders", json=locks([first])))["status"] == "successful"
    one = good(await strict.broker("DELETE", "orders", "/locks", json=locks([*rest, first])))
    assert (one["messageId"], one["status"]) == (first["headers"]["messageId"], "failure")
    assert len(await strict.consume("orders", 10)) == 2


# 5. and 6. Defaults of a GET that says nothing.


async def test_a_get_takes_one_message_for_as_long_as_the_queue_says(
    mq: AnypointCaller, strict: AnypointCaller
) -> None:
    for caller in (mq, strict):
        await caller.queue("quick", defaultLockTtl=1_000)
        for n in range(2):
            await caller.publish("quick", str(n))
        assert len(good(await caller.broker("GET", "quick"))) == 1
        caller.app.clock.advance(ms=1_000)
        assert len(await caller.consume("quick", 10)) == 2


# 7. pollingTime=0 does not wait.


async def test_a_polling_time_of_0_does_not_wait(mq: AnypointCaller) -> None:
    assert (await mq.broker("GET", "orders", "?pollingTime=0")).status == 204


# 8. What a message must have.


async def test_headers_and_properties_may_be_left_out(mq: AnypointCaller, strict: AnypointCaller) -> None:
    for caller in (mq, strict):
        assert (await caller.publish("orders", "m-1")).status == 201
        assert (await caller.publish("orders", "m-2", headers=None, properties=None)).status == 201


async def test_in_a_batch_strictly_every_message_has_an_id(mq: AnypointCaller, strict: AnypointCaller) -> None:
    for caller, status in ((mq, 200), (strict, 400)):
        assert (await caller.broker("PUT", "orders", json=[{"body": "x"}])).status == status
        assert (await caller.broker("PUT", "orders", json=[{"body": "x", "headers": {"messageId": 5}}])).status == 400


# 9. Changed settings and the messages that are there: retention applies to them, a delay does not.


async def test_a_new_ttl_is_for_all_messages_and_a_new_delay_for_new_ones(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    await mq.queue("orders", defaultDeliveryDelay=MINUTE)
    assert len(await mq.consume("orders", lockTtl=0)) == 1
    await mq.queue("orders", defaultTtl=HOUR)
    mq.app.clock.advance(ms=HOUR + 1)
    assert await mq.consume("orders") == []


# 11. Limits of the stats API (100 or 200 a minute): none but the credential's own. Dates: all that are documented.


async def test_stats_can_be_asked_as_often_as_the_credential_allows(mq: AnypointCaller) -> None:
    for _ in range(201):
        assert (await mq.stats("/queues?destinationIds=orders")).status == 200


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 26 Jul 2017 10:00:00 GMT",
        "Wed, 26 Jul 2017 10:00:00 UTC",
        "Wednesday, 26-Jul-17 10:00:00 GMT",
        "Wed Jul 26 10:00:00 2017",
        "2017-07-26T10:00:00Z",
        "2017-07-26T10:00:00.000Z",
        "2017-07-26T10:00:00.000+0000",
        "2017-07-26T12:00:00+02:00",
        "2017-07-26T12:00:00 0200",
        "2017-07-26T10:00:00",
    ],
)
def test_a_date_may_be_written_in_every_documented_way(text: str) -> None:
    assert read_date("startDate", text) == 1_501_063_200_000


@pytest.mark.parametrize("text", ["", "yesterday", "0001-01-01", "2017-13-01T00:00:00Z", "1501063200", "9" * 400])
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="startDate must be a date"):
        read_date("startDate", text)


# 12. Regions: the fields of both documents; strictly only those that are configured.


async def test_any_region_will_do_or_strictly_the_configured_ones(mq: AnypointCaller, strict: AnypointCaller) -> None:
    for caller, status in ((mq, 200), (strict, 404)):
        caller.region = caller.region.replace("us-east-1", "eu-west-1")
        assert (await caller.admin("GET", "/destinations/queues/orders")).status == status
    assert [one["fallbackRegion"] for one in good(await strict.manage("GET", "/regions"))] == ["us-east-2", "us-east-1"]


# Beyond the list: empty lists, required parameters, names, dead letters, kinds of apps.


@pytest.mark.parametrize(
    "tail",
    [
        "/destinations?startsWith=nothing",
        "/bindings/exchanges/news?startsWith=",
        "/bindings/queues/orders?startsWith=",
    ],
)
async def test_an_empty_list_is_an_empty_array_or_strictly_204(
    mq: AnypointCaller, strict: AnypointCaller, tail: str
) -> None:
    for caller, expected in ((mq, (200, b"[]")), (strict, (204, b""))):
        await caller.exchange("news")
        response = await caller.admin("GET", tail)
        assert (response.status, response.body) == expected
    for caller, expected in ((mq, (200, b"[]")), (strict, (204, b""))):
        response = await caller.stats("/queues?destinationIds=nothing")
        assert (response.status, response.body) == expected


async def test_a_prefix_is_strictly_required_in_lists(mq: AnypointCaller, strict: AnypointCaller) -> None:
    assert (await mq.admin("GET", "/destinations")).status == 200
    assert (await strict.admin("GET", "/destinations")).status == 400
    assert (await strict.admin("GET", "/destinations?startsWith=")).status == 200


async def test_an_underscore_in_a_name_is_strictly_refused(mq: AnypointCaller, strict: AnypointCaller) -> None:
    assert (await mq.admin("PUT", "/destinations/queues/a_b")).status == 200
    assert (await strict.admin("PUT", "/destinations/queues/a_b")).status == 400


async def test_dead_letters_are_strictly_configured_in_full(mq: AnypointCaller, strict: AnypointCaller) -> None:
    async def patched(caller: AnypointCaller, version: str, **body: Any) -> Any:
        await caller.queue("failed")
        return await caller.admin("PATCH", "/destinations/queues/orders", version=version, json=body)

    assert good(await patched(mq, "v1", deadLetterQueueId="failed"))["maxDeliveries"] == 10
    assert "deadLetterQueueId" not in good(await patched(strict, "v1", deadLetterQueueId="failed"))
    assert "maxDeliveries" not in good(await patched(mq, "v1", maxDeliveries=3))
    assert (await patched(strict, "v2", maxDeliveries=3)).status == 400


async def test_authorize_is_strictly_for_client_apps(mq: AnypointCaller, strict: AnypointCaller) -> None:
    for caller, expected in ((mq, [200, 200, 200, 200]), (strict, [200, 401, 401, 200])):
        client = good(await caller.manage("PUT", "/clients", json={"name": "c"}))
        connected, secret = await caller.app.services.catalog.create_credential("default", "a", principal="test")
        statuses = []
        for identity in ((client["clientId"], client["clientSecret"]), (connected.id, secret)):
            for path in ("/api/v1/authorize", "/accounts/api/v2/oauth2/token"):
                fields = {"client_id": identity[0], "client_secret": identity[1], "grant_type": "client_credentials"}
                statuses.append((await caller.app.request("POST", path, json=fields, token=None)).status)
        assert statuses == expected
