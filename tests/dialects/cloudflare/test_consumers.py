"""Consumers through the Cloudflare dialect: one a queue, and what they ask of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.hex_ids import HEX_ID
from couriermq.core.model import Action, QueueSettings
from tests.support.cloudflare import Account, Queue, cloudflare_account, refused


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue(pull=False)


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


def settings_of(queue: Queue) -> QueueSettings:
    return queue.account.app.services.catalog.queue("default", queue.id).settings


async def test_a_pull_consumer_has_the_vendors_shape_and_defaults(queue: Queue) -> None:
    made = await queue.result("POST", "/consumers", {"type": "http_pull"})
    consumer_id = made["consumer_id"]
    assert made == {
        "consumer_id": consumer_id,
        "type": "http_pull",
        "queue_id": queue.id,
        "queue_name": "orders",
        "created_on": "2023-11-14T22:13:20.000000Z",
        "dead_letter_queue": "",
        "settings": {"batch_size": 10, "max_retries": 3, "retry_delay": 0, "visibility_timeout_ms": 30_000},
    }
    assert await queue.result("GET", "/consumers") == [made]
    assert await queue.result("GET", f"/consumers/{consumer_id}") == made
    shown = await queue.get()
    assert (shown["consumers"], shown["consumers_total_count"]) == ([made], 1)


async def test_a_consumers_settings_are_the_queues_own(queue: Queue, account: Account) -> None:
    await queue.consume(
        dead_letter_queue="dead", batch_size=3, max_retries=5, retry_delay=2, visibility_timeout_ms=4_000
    )
    settings = settings_of(queue)
    assert (settings.max_attempts, settings.retry_delay_ms, settings.lease_ms) == (6, 2_000, 4_000)
    assert settings.dead_letter_queue == account.app.services.catalog.queue("default", "dead").id
    (shown,) = (await queue.get())["consumers"]
    assert shown["settings"] == {
        "batch_size": 3,
        "max_retries": 5,
        "retry_delay": 2,
        "visibility_timeout_ms": 4_000,
    }


async def test_what_another_dialect_changes_shows_in_the_consumer(queue: Queue, account: Account) -> None:
    await queue.consume()
    catalog = account.app.services.catalog
    await catalog.change_queue(
        catalog.queue("default", "orders"), settings=QueueSettings(max_attempts=12, lease_ms=7_000), principal="test"
    )
    (shown,) = await queue.result("GET", "/consumers")
    assert (shown["settings"]["max_retries"], shown["settings"]["visibility_timeout_ms"]) == (11, 7_000)


async def test_a_new_consumer_keeps_what_another_dialect_had_set(account: Account) -> None:
    catalog = account.app.services.catalog
    made = await catalog.create_queue(
        "default", "theirs", settings=QueueSettings(max_attempts=9, lease_ms=5_000), principal="test"
    )
    shown = await account.result("POST", f"/queues/{made.id}/consumers", {"type": "http_pull"})
    assert (shown["settings"]["max_retries"], shown["settings"]["visibility_timeout_ms"]) == (8, 5_000)


async def test_put_replaces_a_consumer_and_keeps_its_id(queue: Queue) -> None:
    made = await queue.consume(dead_letter_queue="dead", batch_size=3, max_retries=5)
    path = f"/consumers/{made['consumer_id']}"
    replaced = await queue.result("PUT", path, {"type": "http_pull", "settings": {"retry_delay": 9}})
    assert replaced == made | {
        "dead_letter_queue": "",
        "settings": {"batch_size": 10, "max_retries": 3, "retry_delay": 9, "visibility_timeout_ms": 30_000},
    }


async def test_put_creates_a_consumer_where_there_is_none(queue: Queue) -> None:
    made = await queue.result("PUT", "/consumers/mine", {"type": "http_pull"})
    assert HEX_ID.fullmatch(made["consumer_id"])
    for consumer_id in ("mine", made["consumer_id"]):
        assert await queue.result("GET", f"/consumers/{consumer_id}") == made


async def test_a_deleted_consumer_switches_pulling_off_and_takes_its_settings_along(queue: Queue) -> None:
    before = settings_of(queue)
    made = await queue.consume(dead_letter_queue="dead", max_retries=5, retry_delay=3, visibility_timeout_ms=1_000)
    assert await queue.result("DELETE", f"/consumers/{made['consumer_id']}") is None
    assert settings_of(queue) == before
    assert await queue.result("GET", "/consumers") == []
    assert (await queue.call("POST", "/messages/pull", {})).status == 405


async def test_a_worker_consumer_is_kept_and_told_under_the_names_that_tools_read(queue: Queue) -> None:
    order = {
        "type": "worker",
        "script_name": "my-worker",
        "environment_name": "",
        "settings": {"batch_size": 20, "max_retries": 1, "max_wait_time_ms": 2_000, "max_concurrency": None},
    }
    made = await queue.result("POST", "/consumers", order)
    assert made["script_name"] == made["script"] == "my-worker"
    assert "service" not in made  # it would have wrangler ask for the script
    assert made["settings"] == {
        "batch_size": 20,
        "max_concurrency": None,
        "max_retries": 1,
        "max_wait_time_ms": 2_000,
        "retry_delay": 0,
    }
    assert refused(await queue.call("POST", "/messages/pull", {}))[:2] == (405, 0)


async def test_a_missing_dead_letter_queue_is_created_like_any_other(account: Account) -> None:
    made = await account.result("POST", "/queues", {"queue_name": "here", "jurisdiction": "eu"})
    await Queue(account, made["queue_id"], "here").consume(dead_letter_queue="graves")
    (graves,) = await account.result("GET", "/queues?name=graves")
    assert graves["settings"]["message_retention_period"] == 345_600
    assert graves["jurisdiction"] == "eu"


async def test_an_existing_dead_letter_queue_is_used_and_follows_a_rename(queue: Queue, account: Account) -> None:
    dead = await account.queue("dead", pull=False)
    await queue.consume(dead_letter_queue="dead")
    await dead.result("PATCH", "", {"queue_name": "graves"})
    assert (await queue.get())["consumers"][0]["dead_letter_queue"] == "graves"


async def test_two_consumers_created_at_once_leave_one(queue: Queue) -> None:
    answers = await asyncio.gather(*[queue.call("POST", "/consumers", {"type": "http_pull"}) for _ in range(5)])
    assert sorted(answer.status for answer in answers) == [200, 400, 400, 400, 400]


async def test_whoever_may_not_create_queues_cannot_have_a_dead_letter_queue_created(queue: Queue) -> None:
    limited = await queue.account.with_scopes(Action.MANAGE, queues=("orders",))
    order = {"type": "http_pull", "dead_letter_queue": "unseen"}
    assert refused(await limited.call("POST", f"{queue.path}/consumers", order))[:2] == (403, 10000)
    assert await queue.account.result("GET", "/queues?name=unseen") == []


async def test_whoever_may_not_manage_a_queue_cannot_send_dead_letters_to_it(queue: Queue) -> None:
    await queue.account.queue("private", pull=False)
    limited = await queue.account.with_scopes(Action.MANAGE, queues=("orders",))
    order = {"type": "http_pull", "dead_letter_queue": "private"}
    assert refused(await limited.call("POST", f"{queue.path}/consumers", order))[:2] == (403, 10000)
    assert (await queue.get())["consumers"] == []


async def test_an_annotation_that_is_no_consumer_does_no_harm(queue: Queue, account: Account) -> None:
    catalog = account.app.services.catalog
    documents: tuple[object, ...] = (5, "x", [], {}, {"id": 1, "type": "http_pull"}, {"type": "moon"})
    for nonsense in documents:
        kept = catalog.queue("default", "orders")
        await catalog.change_queue(
            kept,
            annotations={"cloudflare.consumer": nonsense, "cloudflare.jurisdiction": nonsense},
            principal="test",
        )
        assert (await queue.get())["consumers"] == []
        assert refused(await queue.call("POST", "/messages/pull", {}))[:2] == (405, 0)
    await queue.consume()
    assert await queue.pull() == []


@pytest.mark.parametrize(
    ("path", "order", "sentence"),
    [
        ("c", {"type": "worker", "script_name": "s" * 257}, "script_name has at most 256 characters"),
        (
            "c",
            {"type": "worker", "script_name": "s", "environment_name": "e" * 257},
            "environment_name has at most 256 characters",
        ),
        ("c" * 129, {"type": "http_pull"}, "the id of a consumer has at most 128 characters"),
    ],
)
async def test_the_names_of_a_consumer_are_short(account: Account, path: str, order: Any, sentence: str) -> None:
    queue = await account.queue("short", pull=False)
    assert refused(await queue.call("PUT", f"/consumers/{path}", order)) == (400, 10026, sentence)
