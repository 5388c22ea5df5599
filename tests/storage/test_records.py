"""The control plane: names are taken once, references hold, and a tenant sees only its own."""

import asyncio
from collections.abc import Callable

import pytest

from couriermq.core.errors import (
    AlreadyExists,
    BindingNotFound,
    CourierError,
    CredentialNotFound,
    DeadLetterCycle,
    ExchangeNotFound,
    InUse,
    Invalid,
    QueueNotFound,
    RecordNotFound,
    TenantNotFound,
)
from couriermq.core.model import QueueSettings
from couriermq.storage.base import StoredRecord
from tests.support.engines import TENANT, WHO, Rig


def record(id_: str, *, slot: str | None = None, document: bytes = b"d") -> StoredRecord:
    return StoredRecord(kind="record", tenant=TENANT, id=id_, document=document, slot=slot)


async def of_kind_record(rig: Rig) -> dict[str, bytes]:
    return {each.id: each.document for each in await rig.store.load_records() if each.kind == "record"}


async def test_a_record_is_put_replaced_and_deleted(rig: Rig) -> None:
    await rig.store.change_records(put=[record("a"), record("b")])
    await rig.store.change_records(put=[record("a", document=b"new")], delete=[record("b"), record("never there")])
    assert await of_kind_record(rig) == {"a": b"new"}


async def test_a_slot_is_taken_once(rig: Rig) -> None:
    await rig.store.change_records(put=[record("a", slot="place")])
    with pytest.raises(AlreadyExists):
        await rig.store.change_records(put=[record("b", slot="place")])
    await rig.store.change_records(put=[record("a", slot="place", document=b"mine")])
    await rig.store.change_records(delete=[record("a")])
    await rig.store.change_records(put=[record("b", slot="place")])
    assert await of_kind_record(rig) == {"b": b"d"}


async def test_records_change_together_or_not_at_all(rig: Rig) -> None:
    await rig.store.change_records(put=[record("a", slot="place")])
    before = await rig.store.spans()
    with pytest.raises(AlreadyExists):
        await rig.store.change_records(put=[record("c"), record("b", slot="place")])
    assert await of_kind_record(rig) == {"a": b"d"}
    assert await rig.store.spans() == before


async def test_an_operation_that_fails_leaves_its_neighbours_in_the_commit_done(rig: Rig) -> None:
    await rig.store.change_records(put=[record("a", slot="place")])
    outcomes = await asyncio.gather(
        rig.store.change_records(put=[record("x")]),
        rig.store.change_records(put=[record("b", slot="place")]),
        rig.store.change_records(put=[record("y")]),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [type(None), AlreadyExists, type(None)]
    assert set(await of_kind_record(rig)) == {"a", "x", "y"}


async def test_keys_are_never_given_out_twice(rig: Rig) -> None:
    keys = await asyncio.gather(*(rig.store.next_key() for _ in range(10)))
    await rig.restart()
    assert len({*keys, await rig.store.next_key()}) == 11


async def test_queues_and_exchanges_share_their_names(rig: Rig) -> None:
    await rig.create("orders")
    await rig.catalog.create_exchange(TENANT, "x", principal=WHO)
    for attempt in (
        rig.create("orders"),
        rig.create("x"),
        rig.catalog.create_exchange(TENANT, "orders", principal=WHO),
    ):
        with pytest.raises(AlreadyExists):
            await attempt


async def test_of_two_who_want_a_name_at_once_one_gets_it(rig: Rig) -> None:
    outcomes = await asyncio.gather(*(rig.create("orders") for _ in range(4)), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AlreadyExists"] * 3 + ["Queue"]


async def test_a_queue_can_be_renamed_and_its_old_name_is_free(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send("orders", id="m")
    await rig.catalog.change_queue(queue, name="bills", principal=WHO)
    with pytest.raises(QueueNotFound):
        rig.queue("orders")
    assert (await rig.receive_one("bills")).message.id == "m"
    await rig.create("orders")
    with pytest.raises(AlreadyExists):
        await rig.catalog.change_queue(rig.queue("orders"), name="bills", principal=WHO)


async def test_a_name_that_was_deleted_starts_empty(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send("orders")
    await rig.catalog.delete_queue(queue, principal=WHO)
    again = await rig.create("orders")
    assert again.id != queue.id
    assert (await rig.counters("orders")).total_count == 0
    await rig.store.advance(now=rig.now)
    assert (await rig.counters("orders")).total_count == 0


@pytest.mark.parametrize("name", ["", "/x", "x/", "-x", "a b", "ä", "x" * 128])
async def test_a_name_that_does_not_suit_is_refused(rig: Rig, name: str) -> None:
    with pytest.raises(Invalid):
        await rig.create(name)


# -- dead letter queues ---------------------------------------------------------------------------------------


async def test_dead_letters_must_not_come_back_to_their_queue(rig: Rig) -> None:
    a = await rig.create("a")
    b = await rig.create("b", dead_letter_queue="a")
    c = await rig.create("c", dead_letter_queue="b")
    for target in (a, b, c):
        settings = QueueSettings(dead_letter_queue=target.id)
        with pytest.raises(DeadLetterCycle):
            await rig.catalog.change_queue(a, settings=settings, principal=WHO)


async def test_dead_letters_stay_with_their_tenant(rig: Rig) -> None:
    await rig.catalog.create_tenant("acme", principal=WHO)
    theirs = await rig.catalog.create_queue("acme", "graves", principal=WHO)
    for target in (theirs.id, "nowhere"):
        settings = QueueSettings(dead_letter_queue=target)
        with pytest.raises(QueueNotFound):
            await rig.catalog.create_queue(TENANT, "orders", settings=settings, principal=WHO)


async def test_a_queue_that_takes_dead_letters_cannot_be_deleted(rig: Rig) -> None:
    graves = await rig.create("graves")
    orders = await rig.create("orders", dead_letter_queue="graves")
    assert rig.catalog.dead_letter_sources(graves) == [orders]
    with pytest.raises(InUse):
        await rig.catalog.delete_queue(graves, principal=WHO)
    await rig.catalog.delete_queue(orders, principal=WHO)
    await rig.catalog.delete_queue(graves, principal=WHO)


# -- tenants --------------------------------------------------------------------------------------------------


async def test_a_tenant_does_not_see_what_belongs_to_another(rig: Rig) -> None:
    await rig.catalog.create_tenant("acme", principal=WHO)
    queue = await rig.create("orders")
    exchange = await rig.catalog.create_exchange(TENANT, "x", principal=WHO)
    credential, _ = await rig.catalog.create_credential(TENANT, "app", principal=WHO)
    kept = await rig.catalog.put_record("subscription", TENANT, {}, principal=WHO)
    lookups: list[tuple[type[CourierError], Callable[[], object]]] = [
        (QueueNotFound, lambda: rig.catalog.queue("acme", "orders")),
        (QueueNotFound, lambda: rig.catalog.queue("acme", queue.id)),
        (QueueNotFound, lambda: rig.catalog.destination("acme", exchange.id)),
        (ExchangeNotFound, lambda: rig.catalog.exchange("acme", exchange.id)),
        (CredentialNotFound, lambda: rig.catalog.credential("acme", credential.id)),
        (RecordNotFound, lambda: rig.catalog.record("subscription", "acme", kept.id)),
        (TenantNotFound, lambda: rig.catalog.tenant("nobody")),
    ]
    for error, lookup in lookups:
        with pytest.raises(error):
            lookup()
    assert [*rig.catalog.queues("acme"), *rig.catalog.exchanges("acme"), *rig.catalog.credentials("acme")] == []


async def test_two_tenants_may_use_one_name(rig: Rig) -> None:
    await rig.catalog.create_tenant("acme", principal=WHO)
    theirs = await rig.catalog.create_queue("acme", "orders", principal=WHO)
    ours = await rig.create("orders")
    assert rig.catalog.queue("acme", "orders") == theirs
    assert rig.queue("orders") == ours


async def test_a_tenant_that_owns_queues_cannot_be_deleted(rig: Rig) -> None:
    await rig.catalog.create_tenant("acme", principal=WHO)
    queue = await rig.catalog.create_queue("acme", "orders", principal=WHO)
    credential, _ = await rig.catalog.create_credential("acme", "app", principal=WHO)
    with pytest.raises(InUse):
        await rig.catalog.delete_tenant("acme", principal=WHO)
    await rig.catalog.delete_queue(queue, principal=WHO)
    await rig.catalog.delete_tenant("acme", principal=WHO)
    await rig.restart()
    assert rig.catalog.credential_of_id(credential.id) is None
    with pytest.raises(TenantNotFound):
        rig.catalog.tenant("acme")


async def test_the_default_tenant_is_always_there(rig: Rig) -> None:
    with pytest.raises(Invalid):
        await rig.catalog.delete_tenant(TENANT, principal=WHO)
    assert rig.catalog.tenant(TENANT).id == TENANT


async def test_an_alias_belongs_to_one_tenant(rig: Rig) -> None:
    await rig.catalog.create_tenant("acme", aliases={"cloudflare": "0123"}, principal=WHO)
    for aliases in ({"cloudflare": "0123"}, {"cloudflare": "acme"}):
        with pytest.raises(AlreadyExists):
            await rig.catalog.create_tenant("other", aliases=aliases, principal=WHO)
    await rig.catalog.change_tenant("acme", aliases={}, principal=WHO)
    await rig.catalog.create_tenant("other", aliases={"cloudflare": "0123"}, principal=WHO)
    assert rig.catalog.tenant_of_alias("cloudflare", "0123").id == "other"


async def test_a_tenant_id_that_is_an_alias_of_another_is_refused(rig: Rig) -> None:
    await rig.catalog.create_tenant("acme", aliases={"cloudflare": "0123"}, principal=WHO)
    with pytest.raises(AlreadyExists):
        await rig.catalog.create_tenant("0123", principal=WHO)


async def test_a_binding_that_is_not_there_is_not_found(rig: Rig) -> None:
    queue = await rig.create("orders")
    exchange = await rig.catalog.create_exchange(TENANT, "x", principal=WHO)
    with pytest.raises(BindingNotFound):
        await rig.catalog.unbind(exchange, queue, principal=WHO)
