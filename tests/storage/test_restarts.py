"""Closing and opening again changes nothing that anybody could notice."""

import pytest

from couriermq.core.errors import LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.model import DEDUP_MS, Action, Draft, Kind, Matcher, QueueSettings, Rule, RuleType, Scope, State
from tests.support.engines import TENANT, WHO, Rig


async def test_messages_survive_a_restart_in_every_state(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send_all("orders", [Draft(body=b"x" * (n * 1_000), id=str(n), attributes={"n": n}) for n in range(5)])
    await rig.send("orders", delay_ms=1_000, retention_ms=50_000, group="g", trace="t")
    await rig.receive_one("orders")
    await rig.release("orders", await rig.receive_one("orders"))
    before = [await rig.browse(name) for name in ("orders", "graves")]
    await rig.restart()
    assert [await rig.browse(name) for name in ("orders", "graves")] == before
    assert {message.state for message in before[0]} == set(State)


async def test_a_receipt_is_good_after_a_restart_and_dies_at_its_time(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"")] * 2)
    first, second = await rig.receive("orders", limit=2, lease_ms=1_000)
    await rig.restart()
    assert await rig.receive("orders") == []
    await rig.ack("orders", first)
    rig.clock.advance(ms=1_000)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", second)


async def test_a_receipt_settles_once_even_across_a_restart(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    lease = await rig.receive_one("orders")
    await rig.ack("orders", lease)
    await rig.restart()
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)


async def test_an_old_receipt_does_not_fit_a_lease_from_after_the_restart(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    old = await rig.receive_one("orders", lease_ms=10)
    await rig.restart()
    rig.clock.advance(ms=10)
    new = await rig.receive_one("orders")
    with pytest.raises(LeaseLost):
        await rig.ack("orders", old)
    await rig.ack("orders", new)


async def test_time_that_passed_while_closed_is_applied(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves", retention_ms=60_000)
    await rig.send("orders", id="leased")
    await rig.receive_one("orders", lease_ms=5_000)
    died_at = rig.now + 5_000
    await rig.send("orders", id="delayed", delay_ms=5_000)
    await rig.send("orders", id="brief", retention_ms=5_000)
    await rig.close()
    rig.clock.advance(ms=10_000)
    await rig.open()
    await rig.store.advance(now=rig.now)
    assert [(m.id, m.state) for m in await rig.browse("orders")] == [("delayed", State.READY)]
    assert [(m.id, m.entered_at) for m in await rig.browse("graves")] == [("leased", died_at)]


async def test_seqs_are_never_given_out_again(rig: Rig) -> None:
    await rig.create("orders")
    last = await rig.send("orders")
    await rig.ack("orders", await rig.receive_one("orders"))
    await rig.restart()
    assert await rig.store.last_seq(rig.queue("orders")) == last.seq
    assert (await rig.send("orders")).seq > last.seq


async def test_keys_of_queues_are_never_given_out_again(rig: Rig) -> None:
    first = await rig.create("orders")
    await rig.catalog.delete_queue(first, principal=WHO)
    await rig.store.advance(now=rig.now)
    await rig.restart()
    assert (await rig.create("orders")).key != first.key


async def test_minted_ids_lead_to_their_messages_after_a_restart(rig: Rig) -> None:
    await rig.create("orders")
    sent = await rig.send("orders")
    await rig.restart()
    assert (await rig.broker.read_message(rig.queue("orders"), sent.id)).seq == sent.seq


async def test_duplicates_are_known_after_a_restart(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    first = await rig.send("line", id="same")
    await rig.restart()
    rig.clock.advance(ms=DEDUP_MS - 1)
    again = await rig.send("line", id="same")
    assert (again.seq, again.duplicate) == (first.seq, True)


async def test_a_locked_group_stays_locked(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    for body in (b"a", b"b"):
        await rig.send("line", body, group="g")
    lease = await rig.receive_one("line")
    await rig.restart()
    assert await rig.receive("line") == []
    await rig.ack("line", lease)
    assert (await rig.receive_one("line")).message.body == b"b"


async def test_the_control_plane_survives_a_restart(rig: Rig) -> None:
    catalog = rig.catalog
    await catalog.create_tenant("acme", aliases={"cloudflare": "0123"}, principal=WHO)
    queue = await rig.create("orders", delay_ms=5, max_attempts=3)
    queue = await catalog.change_queue(queue, name="bills", annotations={"note": [1]}, principal=WHO)
    exchange = await catalog.create_exchange(TENANT, "x", annotations={"a": {"b": None}}, principal=WHO)
    rule = Rule(attribute="n", type=RuleType.NUMERIC, matcher=Matcher.RANGE, value=[1.0, 2.0])
    binding = await catalog.bind(exchange, queue, rules=[rule], principal=WHO)
    credential, _ = await catalog.create_credential(
        TENANT, "app", scopes=[Scope(Action.SEND, ("bills",))], principal=WHO
    )
    record = await catalog.put_record("subscription", TENANT, {"deep": [1, "x"]}, principal=WHO)
    await rig.restart()
    assert [tenant.id for tenant in rig.catalog.tenants()] == ["acme", "default"]
    assert rig.catalog.tenant_of_alias("cloudflare", "0123").id == "acme"
    assert rig.queue("bills") == queue
    assert rig.catalog.exchange(TENANT, "x") == exchange
    assert rig.catalog.binding(exchange, queue) == binding
    assert rig.catalog.credential(TENANT, credential.id) == credential
    assert rig.catalog.record("subscription", TENANT, record.id) == record


async def test_a_deleted_queue_stays_deleted_and_its_messages_are_swept(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x" * 5_000)] * 50)
    await rig.catalog.delete_queue(queue, principal=WHO)
    await rig.restart()
    assert rig.catalog.queues(TENANT) == []
    await rig.store.advance(now=rig.now)
    assert len(await rig.events(EventKind.PURGED)) == 50
    assert await rig.store.check() == []


async def test_a_setting_that_was_changed_holds_after_a_restart(rig: Rig) -> None:
    queue = await rig.create("orders", retention_ms=60_000)
    await rig.send("orders")
    await rig.catalog.change_queue(queue, settings=QueueSettings(retention_ms=5_000), principal=WHO)
    await rig.restart()
    rig.clock.advance(ms=5_000)
    assert (await rig.counters("orders")).total_count == 0


async def test_many_restarts_leave_the_store_sound(rig: Rig) -> None:
    await rig.create("orders")
    for n in range(5):
        await rig.send("orders", b"x" * 3_000 * n)
        await rig.receive("orders", lease_ms=10)
        await rig.restart()
        rig.clock.advance(ms=10)
    assert (await rig.counters("orders")).total_count == 5
    assert await rig.store.check() == []
