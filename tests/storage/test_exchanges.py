"""An exchange copies a message to every queue whose binding lets it through, all or nothing, in one commit."""

from typing import Any

import pytest

from couriermq.core import routing
from couriermq.core.errors import BatchTooLarge, BodyTooLarge, CourierError
from couriermq.core.events import EventKind
from couriermq.core.model import Draft, Exchange, ListenerSettings, Matcher, Published, Rule, RuleType
from couriermq.core.surrogates import document_of
from tests.support.engines import TENANT, WHO, Rig

RED = Rule(attribute="colour", type=RuleType.STRING, matcher=Matcher.EQ, value="red")
LARGE = Rule(attribute="size", type=RuleType.NUMERIC, matcher=Matcher.GE, value=10.0)


async def exchange(rig: Rig, **bindings: list[Rule]) -> Exchange:
    """An exchange `x` with a queue bound to it for each name."""
    x = await rig.catalog.create_exchange(TENANT, "x", principal=WHO)
    for name, rules in bindings.items():
        await rig.catalog.bind(x, await rig.create(name), rules=rules, principal=WHO)
    return x


async def publish(rig: Rig, *drafts: Draft) -> list[Published | CourierError]:
    return await rig.broker.publish(rig.catalog.exchange(TENANT, "x"), drafts, principal=WHO)


async def bodies(rig: Rig, name: str) -> list[bytes]:
    return [message.body for message in await rig.browse(name)]


async def test_every_bound_queue_gets_its_own_copy(rig: Rig) -> None:
    await exchange(rig, orders=[], bills=[])
    assert await publish(rig, Draft(body=b"hello", id="m")) == [Published("m", 2)]
    await rig.ack("orders", await rig.receive_one("orders"))
    (left,) = await rig.browse("bills")
    assert (left.id, left.body) == ("m", b"hello")


async def test_copies_of_one_message_share_an_id_that_was_minted(rig: Rig) -> None:
    await exchange(rig, orders=[], bills=[])
    (published,) = await publish(rig, Draft(body=b"hello"))
    assert isinstance(published, Published)
    copies = [*await rig.browse("orders"), *await rig.browse("bills")]
    assert {copy.id for copy in copies} == {published.id}
    assert len({copy.seq for copy in copies}) == 2


async def test_rules_decide_which_queues_get_a_message(rig: Rig) -> None:
    await exchange(rig, everything=[], red=[RED], large=[LARGE], both=[RED, LARGE])
    outcomes = await publish(
        rig,
        Draft(body=b"plain"),
        Draft(body=b"red", attributes={"colour": "red"}),
        Draft(body=b"large", attributes={"size": 10}),
        Draft(body=b"large red", attributes={"colour": "red", "size": 11.5}),
        Draft(body=b"text", attributes={"colour": "red", "size": "11"}),
    )
    assert [each.queue_count for each in outcomes if isinstance(each, Published)] == [1, 2, 2, 4, 2]
    assert await bodies(rig, "red") == [b"red", b"large red", b"text"]
    assert await bodies(rig, "large") == [b"large", b"large red"]
    assert await bodies(rig, "both") == [b"large red"]
    assert len(await bodies(rig, "everything")) == 5


async def test_a_message_that_no_queue_wants_is_accepted_and_gone(rig: Rig) -> None:
    await exchange(rig, red=[RED])
    assert await publish(rig, Draft(body=b"blue", id="m")) == [Published("m", 0)]
    assert await bodies(rig, "red") == []


async def test_an_exchange_without_bindings_accepts_everything(rig: Rig) -> None:
    await exchange(rig)
    assert await publish(rig, Draft(body=b"hello", id="m")) == [Published("m", 0)]


async def test_each_queue_applies_its_own_settings_to_its_copy(rig: Rig) -> None:
    x = await exchange(rig)
    await rig.catalog.bind(x, await rig.create("slow", delay_ms=1_000), principal=WHO)
    await rig.catalog.bind(x, await rig.create("brief", retention_ms=2_000), principal=WHO)
    await publish(rig, Draft(body=b"hello"))
    assert (await rig.counters("slow")).delayed_count == 1
    assert (await rig.browse("brief"))[0].discard_at == rig.now + 2_000


async def test_a_message_too_large_for_one_of_its_queues_goes_to_the_others(rig: Rig) -> None:
    x = await exchange(rig, orders=[])
    await rig.catalog.bind(x, await rig.create("small", max_body_bytes=3), principal=WHO)
    outcomes = await publish(rig, Draft(body=b"too long", id="long"), Draft(body=b"ok", id="short"))
    assert outcomes == [Published("long", 1), Published("short", 2)]
    assert await bodies(rig, "orders") == [b"too long", b"ok"]
    assert await bodies(rig, "small") == [b"ok"]
    told = {event.message_id: event.detail for event in await rig.events() if event.kind == EventKind.PUBLISHED}
    assert told == {"long": {"queue_count": 1, "refused_count": 1}, "short": {"queue_count": 2}}


async def test_a_message_too_large_for_all_of_its_queues_is_refused(rig: Rig) -> None:
    x = await exchange(rig)
    for name, limit in (("small", 3), ("medium", 5)):
        await rig.catalog.bind(x, await rig.create(name, max_body_bytes=limit), principal=WHO)
    outcomes = await publish(rig, Draft(body=b"too long"), Draft(body=b"ok"))
    assert [type(outcome) for outcome in outcomes] == [BodyTooLarge, Published]
    assert await bodies(rig, "medium") == [b"ok"]


async def test_a_message_that_is_wrong_in_itself_goes_nowhere(rig: Rig) -> None:
    x = await exchange(rig, orders=[])
    await rig.catalog.bind(x, await rig.create("small", max_body_bytes=3), principal=WHO)
    [outcome] = await publish(rig, Draft(body=b"too long", attributes={"size": float("inf")}))
    assert not isinstance(outcome, Published)
    assert await bodies(rig, "orders") == []


async def test_a_queue_that_was_unbound_gets_nothing_more(rig: Rig) -> None:
    x = await exchange(rig, orders=[], bills=[])
    await rig.catalog.unbind(x, rig.queue("orders"), principal=WHO)
    assert await publish(rig, Draft(body=b"hello", id="m")) == [Published("m", 1)]
    assert await bodies(rig, "orders") == []


async def test_a_queue_that_was_deleted_is_bound_no_more(rig: Rig) -> None:
    x = await exchange(rig, orders=[], bills=[])
    await rig.catalog.delete_queue(rig.queue("orders"), principal=WHO)
    assert [binding.queue_id for binding in rig.catalog.bindings_of(x)] == [rig.queue("bills").id]
    assert await publish(rig, Draft(body=b"hello", id="m")) == [Published("m", 1)]


async def test_new_rules_replace_the_old_ones(rig: Rig) -> None:
    x = await exchange(rig, orders=[RED])
    await rig.catalog.bind(x, rig.queue("orders"), rules=[LARGE], principal=WHO)
    await publish(rig, Draft(body=b"red", attributes={"colour": "red"}), Draft(body=b"large", attributes={"size": 99}))
    assert await bodies(rig, "orders") == [b"large"]


async def test_bindings_and_their_rules_survive_a_restart(rig: Rig) -> None:
    x = await exchange(rig, red=[RED], both=[RED, LARGE], everything=[])
    before = rig.catalog.bindings_of(x)
    await rig.restart()
    assert rig.catalog.bindings_of(rig.catalog.exchange(TENANT, "x")) == before
    assert await publish(rig, Draft(body=b"red", id="m", attributes={"colour": "red"})) == [Published("m", 2)]


async def test_a_publication_and_its_copies_are_journaled_together(rig: Rig) -> None:
    x = await exchange(rig, orders=[], bills=[])
    await publish(rig, Draft(body=b"hello", id="m"))
    published, *sent = (await rig.events())[-3:]
    assert (published.kind, published.queue_id, published.queue) == (EventKind.PUBLISHED, x.id, "x")
    assert (published.message_id, published.size, published.detail) == ("m", 5, {"queue_count": 2})
    assert [(event.kind, event.queue) for event in sent] == [("sent", "orders"), ("sent", "bills")]


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_of_publications_has_a_size(rig: Rig, count: int) -> None:
    await exchange(rig, orders=[])
    with pytest.raises(BatchTooLarge):
        await publish(rig, *[Draft(body=b"")] * count)


async def test_a_body_is_parsed_once_for_all_bindings_and_once_for_all_listeners(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []

    def count(body: bytes) -> Any:
        parsed.append(body)
        return document_of(body)

    monkeypatch.setattr(routing, "document_of", count)
    gift = Rule(attribute="$.kind", type=RuleType.STRING, matcher=Matcher.EQ, value="gift")
    x = await exchange(rig, orders=[gift], bills=[gift], rest=[RED, gift])
    for name in ("orders", "bills"):
        for shop in ("a", "b"):
            queue = rig.catalog.queue(TENANT, name)
            settings = ListenerSettings(rules=(gift,))
            await rig.catalog.create_listener(queue, shop, url="https://a.example", settings=settings, principal=WHO)
    body = b'{"kind": "gift"}'
    assert await rig.broker.publish(x, [Draft(body=body, id="m")], principal=WHO) == [Published("m", 2)]
    assert parsed == [body] * 2
    await publish(rig, Draft(body=b'{"kind": "book"}', attributes={"$.kind": "gift"}))
    assert parsed == [body] * 2
