"""The first form of the API, as cloudflare-go v0 and Terraform's provider v4 send it: queues by name, consumers by
script, no type."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloudflare import Account, cloudflare_account, refused

QUEUES = "/workers/queues"
CONSUMERS = f"{QUEUES}/orders/consumers"


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    async with cloudflare_account(tmp_path) as account:
        yield account


async def test_a_queue_is_created_read_renamed_and_deleted_by_its_name(account: Account) -> None:
    made = await account.result("POST", QUEUES, {"queue_name": "orders"})
    await account.result("PATCH", "/queues/orders", {"settings": {"delivery_delay": 5}})
    read = await account.result("GET", f"{QUEUES}/orders")
    assert (read["queue_id"], read["queue_name"]) == (made["queue_id"], "orders")
    renamed = await account.result("PUT", f"{QUEUES}/orders", {"queue_name": "purchases"})
    assert (renamed["queue_id"], renamed["queue_name"]) == (made["queue_id"], "purchases")
    assert renamed["settings"]["delivery_delay"] == 5
    listed = await account.call("GET", f"{QUEUES}?page=1&per_page=50")
    assert [queue["queue_name"] for queue in listed.json()["result"]] == ["purchases"]
    assert listed.json()["result_info"]["total_pages"] == 1
    assert await account.result("DELETE", f"{QUEUES}/purchases") is None
    assert refused(await account.call("GET", f"{QUEUES}/purchases"))[:2] == (404, 11000)


async def test_a_consumer_is_a_worker_that_goes_by_its_script(account: Account) -> None:
    await account.result("POST", QUEUES, {"queue_name": "orders"})
    order: dict[str, Any] = {
        "service": "mailer",
        "environment": "production",
        "settings": {"batch_size": 7, "max_retries": 2, "max_wait_time_ms": 900},
        "dead_letter_queue": "dead",
    }
    made = await account.result("POST", CONSUMERS, order)
    assert (made["type"], made["service"], made["environment"]) == ("worker", "mailer", "production")
    assert (made["queue_name"], made["dead_letter_queue"]) == ("orders", "dead")
    assert made["settings"].items() >= order["settings"].items()
    assert await account.result("GET", CONSUMERS) == [made]
    assert await account.result("GET", f"{CONSUMERS}/mailer") == made
    (queue, _) = reversed(await account.result("GET", QUEUES))
    assert queue["consumers"] == [made]
    changed = await account.result("PUT", f"{CONSUMERS}/mailer", {"service": "mailer", "settings": {"batch_size": 8}})
    assert (changed["consumer_id"], changed["settings"]["batch_size"]) == (made["consumer_id"], 8)
    assert await account.result("DELETE", f"{CONSUMERS}/mailer") is None
    assert await account.result("GET", CONSUMERS) == []


async def test_put_creates_the_consumer_of_a_script_where_there_is_none(account: Account) -> None:
    await account.result("POST", QUEUES, {"queue_name": "orders"})
    made = await account.result("PUT", f"{CONSUMERS}/mailer", {"settings": {"batch_size": 3}})
    assert (made["service"], made["settings"]["batch_size"]) == ("mailer", 3)
    assert refused(await account.call("PUT", f"{CONSUMERS}/other", {}))[:2] == (400, 11004)
    assert refused(await account.call("DELETE", f"{CONSUMERS}/other"))[:2] == (404, 11000)


async def test_the_present_form_shows_no_service(account: Account) -> None:
    """wrangler would ask for the script itself."""
    await account.result("POST", QUEUES, {"queue_name": "orders"})
    await account.result("POST", CONSUMERS, {"service": "mailer"})
    (consumer,) = await account.result("GET", "/queues/orders/consumers")
    assert "service" not in consumer
    assert (consumer["script_name"], consumer["script"]) == ("mailer", "mailer")


async def test_a_queue_named_like_a_path_is_a_queue(account: Account) -> None:
    assert refused(await account.call("GET", f"{QUEUES}/messages"))[:2] == (404, 11000)
