"""Queues through the Discue dialect, in both generations."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.core.limits import NAME
from couriermq.core.model import Action
from tests.support.discue import Organization, discue_organization, refused

SCHEMA = {"total": {"type": "number", "min": 0}}


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path) as organization:
        yield organization


async def test_a_queue_is_created_with_a_name_and_shown_in_the_words_of_both_generations(org: Organization) -> None:
    created = await org.post("/queues", {"name": "myapp.io/deletion-request-queue"})
    queue = created["queue"]
    assert len(queue["id"]) == 21
    assert (queue["name"], queue["alias"]) == ("myapp.io/deletion-request-queue",) * 2
    assert queue["listeners"] == []
    assert created["_links"] == {"self": {"href": f"http://courier.test/queues/{queue['id']}"}}
    assert (await org.get(f"/queues/{queue['id']}"))["queue"] == queue


async def test_the_newer_generation_calls_the_name_alias(org: Organization) -> None:
    queue = (await org.post("/queues", {"alias": "my-first-queue"}))["queue"]
    assert (queue["name"], queue["alias"]) == ("my-first-queue", "my-first-queue")


async def test_name_and_alias_that_differ_are_refused(org: Organization) -> None:
    sentence = refused(await org.call("POST", "/queues", {"name": "one-name", "alias": "another"}), 422)
    assert "two words for one thing" in sentence


async def test_a_queue_without_a_name_gets_one(org: Organization) -> None:
    queue = (await org.post("/queues"))["queue"]
    assert NAME.fullmatch(queue["name"])


async def test_older_programs_create_with_put_on_the_collection(org: Organization) -> None:
    assert (await org.put("/queues", {"name": "orders"}))["queue"]["name"] == "orders"


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_every_path_works_with_and_without_the_version(org: Organization, prefix: str) -> None:
    org.prefix = prefix
    queue_id = await org.queue()
    assert (await org.get(f"/queues/{queue_id}"))["_links"]["self"]["href"].endswith(f"test/queues/{queue_id}")


async def test_a_name_that_is_taken_is_unprocessable(org: Organization) -> None:
    await org.queue("orders")
    response = await org.call("POST", "/queues", {"name": "orders"})
    assert "exists already" in refused(response, 422)
    assert response.json() == {"title": "Unprocessable Entity", "status": 422}


async def test_the_list_links_to_each_queue_by_its_name(org: Organization) -> None:
    first, second = await org.queue("a-queue"), await org.queue("b-queue")
    listed = await org.get("/queues")
    assert listed["queues"] == [
        {"id": first, "name": "a-queue", "alias": "a-queue"},
        {"id": second, "name": "b-queue", "alias": "b-queue"},
    ]
    assert listed["_links"] == {
        "self": {"href": "http://courier.test/queues"},
        "a-queue": {"href": f"http://courier.test/queues/{first}"},
        "b-queue": {"href": f"http://courier.test/queues/{second}"},
    }


async def test_a_child_named_self_does_not_hide_the_link_to_the_list(org: Organization) -> None:
    queue_id = await org.queue("self")
    links = (await org.get("/queues"))["_links"]
    assert links["self"]["href"] == "http://courier.test/queues"
    assert links[queue_id]["href"].endswith(queue_id)


async def test_a_queue_is_found_by_its_name_too(org: Organization) -> None:
    queue_id = await org.queue("myapp.io/orders")
    assert (await org.get("/queues/myapp.io%2Forders"))["queue"]["id"] == queue_id


async def test_a_queue_is_renamed(org: Organization) -> None:
    queue_id = await org.queue("orders", schema=SCHEMA)
    changed = (await org.put(f"/queues/{queue_id}", {"alias": "invoices"}))["queue"]
    assert (changed["id"], changed["name"], changed["schema"]) == (queue_id, "invoices", SCHEMA)


async def test_a_put_without_a_body_changes_nothing(org: Organization) -> None:
    queue_id = await org.queue("orders")
    assert (await org.put(f"/queues/{queue_id}"))["queue"]["name"] == "orders"


async def test_a_schema_is_set_read_by_its_hash_and_removed(org: Organization) -> None:
    queue_id = await org.queue("orders")
    queue = (await org.put(f"/queues/{queue_id}", {"schema": SCHEMA}))["queue"]
    shown = await org.get(f"/queues/{queue_id}/schemas/{queue['schema_id']}")
    assert len(queue["schema_id"]) == 64
    assert shown["schema"] == SCHEMA
    queue = (await org.put(f"/queues/{queue_id}", {"schema": None}))["queue"]
    assert "schema" not in queue
    refused(await org.call("GET", f"/queues/{queue_id}/schemas/{'0' * 64}"), 404)


async def test_deleting_a_queue_takes_its_listeners_and_messages_along(org: Organization) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id)
    message_id = await org.add(queue_id)
    gone = await org.delete(f"/queues/{queue_id}")
    assert list(gone) == ["_links"]
    for path in ("", f"/listeners/{listener['id']}", f"/messages/{message_id}", "/messages", "/listeners"):
        refused(await org.call("GET", f"/queues/{queue_id}{path}"), 404)
    assert (await org.get("/listeners"))["listeners"] == []
    assert (await org.get("/messages"))["messages"] == []


async def test_a_queue_that_takes_dead_letters_of_another_cannot_be_deleted(org: Organization) -> None:
    dead = await org.queue("dead")
    await org.app.post(
        "/courier/v1/tenants/default/queues", {"name": "live", "settings": {"dead_letter_queue": "dead"}}
    )
    assert "still used" in refused(await org.call("DELETE", f"/queues/{dead}"), 409)


async def test_without_a_page_a_list_shows_up_to_a_hundred(org: Organization) -> None:
    for number in range(12):
        await org.queue(f"queue-{number:02}")
    assert len((await org.get("/queues"))["queues"]) == 12


async def test_pages_have_ten_items_unless_asked_otherwise_and_lead_to_the_next(org: Organization) -> None:
    for number in range(12):
        await org.queue(f"queue-{number:02}")
    first = await org.call("GET", "/queues?page=1")
    assert len(first.json()["queues"]) == 10
    assert first.headers["link"] == '<http://courier.test/queues?page=2&per_page=10>; rel="next"'
    last = await org.call("GET", "/queues?page=4&per_page=3")
    assert [queue["name"] for queue in last.json()["queues"]] == ["queue-09", "queue-10", "queue-11"]
    assert "link" not in last.headers
    assert (await org.get("/queues?page=9"))["queues"] == []


@pytest.mark.parametrize("query", ["page=0", "per_page=101", "per_page=0", "page=x", "page=-1", "per_page="])
async def test_a_page_that_cannot_be_is_refused(org: Organization, query: str) -> None:
    refused(await org.call("GET", f"/queues?{query}"), 422)


async def test_pretty_prints_on_request(org: Organization) -> None:
    for query, pretty in (("?pretty", True), ("?pretty=true", True), ("?pretty=false", False), ("", False)):
        response = await org.call("GET", f"/queues{query}")
        assert (b"\n  " in response.body) is pretty
    assert b"\n  " in (await org.call("GET", "/queues/none?pretty")).body


async def test_a_queue_made_here_lets_go_of_what_every_listener_has(org: Organization) -> None:
    queue_id = await org.queue()
    assert org.app.services.catalog.queue_by_id("default", queue_id).settings.keep_delivered is False


PROXIED = {
    "x-forwarded-for": "203.0.113.9",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "queues.example",
    "x-forwarded-prefix": "/discue",
}


async def test_links_follow_the_host_and_prefix_of_a_trusted_proxy(tmp_path: Path) -> None:
    async with discue_organization(tmp_path, trusted_proxies=("127.0.0.1/32",)) as org:
        queue_id = await org.queue()
        for n in range(2):
            await org.add(queue_id, name=f"m-{n}")
        response = await org.call("GET", f"/queues/{queue_id}/messages?page=1&per_page=1", headers=PROXIED)
        base = f"https://queues.example/discue/queues/{queue_id}/messages"
        assert response.json()["_links"]["self"] == {"href": base}
        assert response.json()["_links"]["m-0"]["href"].startswith(f"{base}/")
        assert response.headers["link"].startswith(f"<{base}?")


async def test_links_do_not_follow_what_a_stranger_claims_to_forward(tmp_path: Path) -> None:
    async with discue_organization(tmp_path) as org:
        response = await org.call("GET", "/queues", headers=PROXIED)
        assert response.json()["_links"]["self"] == {"href": "http://courier.test/queues"}


async def test_a_queue_takes_no_name_that_its_manager_has_no_right_to(org: Organization) -> None:
    await org.queue("orders-queue")
    await org.queue("other-queue")
    manager = await org.with_scopes(Action.MANAGE, queues=("orders-queue",))
    for name in ("other-queue", "free-queue"):
        refused(await manager.call("PUT", "/queues/orders-queue", {"name": name}), 403)
    await manager.put("/queues/orders-queue", {"name": "orders-queue"})
