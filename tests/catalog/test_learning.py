"""What a node learns of other nodes' changes, several of which it may hear of at once."""

from typing import Any

import pytest

from couriermq.catalog import Catalog
from couriermq.clock import FakeClock
from couriermq.core.errors import QueueNotFound
from couriermq.core.model import Exchange, Queue, Tenant
from couriermq.storage.base import Store


class NoStore(Store):
    """Learning asks no store."""


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog(NoStore(), FakeClock())  # type: ignore[abstract]
    catalog._remember(Tenant(id="t", created_at=0))
    return catalog


def queue(key: int, name: str, **fields: Any) -> Queue:
    return Queue(key=key, id=f"id{key}", tenant="t", name=name, **fields)


def learn(
    catalog: Catalog, *, put: tuple[Queue | Exchange, ...] = (), delete: tuple[Queue | Exchange, ...] = ()
) -> None:
    catalog.learn(put=[catalog._stored(one) for one in put], delete=[catalog._stored(one) for one in delete])


def test_a_queue_that_was_renamed_and_deleted_is_gone_under_its_old_name(catalog: Catalog) -> None:
    learn(catalog, put=(queue(1, "old"),))
    learn(catalog, delete=(queue(1, "new"),))
    assert catalog.queue_of_key(1) is None
    with pytest.raises(QueueNotFound):
        catalog.queue("t", "old")
    catalog._check_free("t", "old")


def test_a_queue_that_was_deleted_takes_no_other_queues_name_with_it(catalog: Catalog) -> None:
    """The first queue took the name that this node still knows as the second one's."""
    learn(catalog, put=(queue(1, "first"), queue(2, "second")))
    learn(catalog, delete=(queue(1, "second"),))
    assert catalog.queue("t", "second").id == "id2"
    assert [one.id for one in catalog.queues("t")] == ["id2"]
    catalog._check_free("t", "first")


def test_a_change_and_a_deletion_that_were_heard_of_already_are_no_news(catalog: Catalog) -> None:
    learn(catalog, put=(queue(1, "first"),))
    for _ in range(2):
        learn(catalog, delete=(queue(1, "first"),))
    assert catalog.queue_count("t") == 0


def test_a_name_that_went_from_one_queue_to_another_leads_to_the_other(catalog: Catalog) -> None:
    """The other is heard of first where the one was changed again since."""
    learn(catalog, put=(queue(1, "orders"),))
    learn(catalog, put=(queue(2, "orders"), queue(1, "old-orders")))
    assert [catalog.queue("t", name).id for name in ("orders", "old-orders")] == ["id2", "id1"]


def test_two_queues_can_swap_their_names(catalog: Catalog) -> None:
    learn(catalog, put=(queue(1, "first"), queue(2, "second")))
    learn(catalog, put=(queue(1, "second"), queue(2, "first")))
    assert [catalog.queue("t", name).id for name in ("first", "second")] == ["id2", "id1"]


def test_a_name_that_went_from_a_queue_to_an_exchange_leads_to_the_exchange(catalog: Catalog) -> None:
    learn(catalog, put=(queue(1, "orders"),))
    learn(catalog, put=(Exchange(id="exchange", tenant="t", name="orders"), queue(1, "old-orders")))
    assert catalog.destination("t", "orders").id == "exchange"


def test_an_alias_that_went_from_one_queue_to_another_leads_to_the_other(catalog: Catalog) -> None:
    learn(catalog, put=(queue(1, "first", aliases={"cloudflare": "alias"}),))
    learn(catalog, put=(queue(2, "second", aliases={"cloudflare": "alias"}), queue(1, "first")))
    found = catalog.queue_of_alias("t", "cloudflare", "alias")
    assert found is not None
    assert found.id == "id2"


def test_a_deletion_forgets_no_name_that_leads_elsewhere(catalog: Catalog) -> None:
    learn(catalog, put=(queue(1, "orders", aliases={"cloudflare": "alias"}),))
    learn(catalog, put=(queue(2, "orders", aliases={"cloudflare": "alias"}),))
    learn(catalog, delete=(queue(1, "orders", aliases={"cloudflare": "alias"}),))
    assert catalog.queue("t", "orders").id == "id2"
    assert catalog.queue_of_alias("t", "cloudflare", "alias") == catalog.queue("t", "orders")
