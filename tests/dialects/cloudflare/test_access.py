"""Who may do what through the Cloudflare dialect, and that accounts cannot see each other."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.hex_ids import hex_of
from couriermq.core.model import Action, Scope
from tests.support.cloudflare import Account, Queue, accepted, cloudflare_account, refused

READ = (Action.STATS,)
WRITE = (Action.SEND, Action.RECEIVE, Action.MANAGE)
AUTHENTICATION_ERROR = "Authentication error"


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


async def tenant_secret(account: Account, tenant: str, **aliases: str) -> str:
    catalog = account.app.services.catalog
    await catalog.create_tenant(tenant, aliases=aliases, principal="test")
    _, secret = await catalog.create_credential(tenant, "app", principal="test")
    return secret


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer root-token"},
        {"authorization": "bearer root-token"},
        {"x-auth-email": "someone@example.com", "x-auth-key": "root-token"},
        {"x-auth-user-service-key": "root-token"},
    ],
    ids=["bearer", "lower case", "key and email", "service key"],
)
async def test_every_way_to_show_a_credential(account: Account, headers: dict[str, str]) -> None:
    accepted(await account.call("GET", "/queues", headers=headers, token=None))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic cm9vdDpyb290"},
        {"authorization": "Bearer"},
        {"x-auth-email": "someone@example.com", "x-auth-key": "wrong"},
        {"x-auth-email": "someone@example.com"},
    ],
    ids=["none", "wrong", "basic", "empty", "wrong key", "no key"],
)
async def test_without_a_good_credential_nothing_is_done(queue: Queue, headers: dict[str, str]) -> None:
    for method, path in (("GET", "/queues"), ("POST", f"{queue.path}/messages"), ("GET", "/queues/none")):
        response = await queue.account.call(method, path, {"body": {}}, headers=headers, token=None)
        assert refused(response) == (401, 10000, AUTHENTICATION_ERROR)
        assert response.json()["messages"]
    assert await queue.count() == 0


async def test_an_account_is_known_by_its_tenant_or_by_its_alias(account: Account) -> None:
    secret = await tenant_secret(account, "acme", cloudflare="023e105f4ecef8ad9ca31a8372d0c353")
    for name in ("acme", hex_of("acme"), "023e105f4ecef8ad9ca31a8372d0c353"):
        theirs = Account(account.app, name, token=secret)
        await theirs.result("GET", "/queues")


async def test_a_stranger_cannot_tell_an_account_from_one_that_is_not_there(queue: Queue) -> None:
    secret = await tenant_secret(queue.account, "acme")
    answers = []
    for name in ("default", "nobody"):
        stranger = Account(queue.account.app, name, token=secret)
        for method, path, body in every_call(queue):
            response = await stranger.call(method, path, body)
            assert refused(response) == (403, 10000, AUTHENTICATION_ERROR)
            answers.append(response.body.replace(name.encode(), b"?"))
    assert len(set(answers)) == 1
    assert await queue.count() == 0


async def test_another_accounts_queue_does_not_exist(queue: Queue) -> None:
    secret = await tenant_secret(queue.account, "acme")
    stranger = Account(queue.account.app, "acme", token=secret)
    assert refused(await stranger.call("GET", queue.path))[:2] == (404, 11000)
    assert refused(await stranger.call("POST", f"{queue.path}/messages", {"body": {}}))[:2] == (404, 10104)
    assert await stranger.result("GET", "/queues") == []
    mine = await stranger.queue("orders")
    assert mine.id != queue.id


async def test_root_is_told_that_an_account_does_not_exist(account: Account) -> None:
    response = await Account(account.app, "nobody").call("GET", "/queues")
    assert refused(response) == (403, 10000, AUTHENTICATION_ERROR)
    assert response.json()["messages"] == ["no tenant named 'nobody'"]


def every_call(queue: Queue) -> list[tuple[str, str, Any]]:
    """Each route once, with an order that would be good."""
    subscription = {
        "name": "s",
        "source": {"type": "r2"},
        "destination": {"type": "queues.queue", "queue_id": queue.id},
        "events": ["bucket.created"],
    }
    return [
        ("GET", "/queues", {}),
        ("GET", "/workers/queues", {}),
        ("POST", "/queues", {"queue_name": "another"}),
        *[(method, queue.path, {}) for method in ("GET", "PUT", "PATCH", "DELETE")],
        ("GET", f"{queue.path}/metrics", {}),
        ("POST", f"{queue.path}/purge", {"delete_messages_permanently": True}),
        ("GET", f"{queue.path}/purge", {}),
        ("POST", f"{queue.path}/messages", {"body": {}}),
        ("POST", f"{queue.path}/messages/batch", {"messages": [{"body": {}}]}),
        *[("POST", f"{queue.path}/messages/{verb}", {}) for verb in ("pull", "ack", "peek", "preview")],
        ("POST", f"{queue.path}/messages/purge", {"refs": []}),
        ("GET", f"{queue.path}/consumers", {}),
        ("POST", f"{queue.path}/consumers", {"type": "http_pull"}),
        *[(method, f"{queue.path}/consumers/x", {"type": "http_pull"}) for method in ("GET", "PUT", "DELETE")],
        ("GET", "/event_subscriptions/subscriptions", {}),
        ("POST", "/event_subscriptions/subscriptions", subscription),
        *[(method, "/event_subscriptions/subscriptions/x", {}) for method in ("GET", "PATCH", "DELETE")],
    ]


async def test_reading_does_not_allow_writing(queue: Queue) -> None:
    reader = await queue.account.with_scopes(*READ)
    await reader.result("GET", "/queues")
    await reader.result("GET", queue.path)
    await reader.result("GET", f"{queue.path}/metrics")
    await reader.result("GET", f"{queue.path}/consumers")
    before = await queue.get()
    for method, path, body in every_call(queue):
        if method == "GET" or path.endswith("/x"):
            continue
        assert refused(await reader.call(method, path, body))[:2] == (403, 10000), path
    assert (await queue.get(), await queue.count()) == (before, 0)


async def test_writing_includes_the_metrics_and_peek(queue: Queue) -> None:
    writer = await queue.account.with_scopes(*WRITE)
    await writer.result("GET", f"{queue.path}/metrics")
    await writer.result("POST", f"{queue.path}/messages/peek")
    await writer.result("POST", f"{queue.path}/messages/preview")


async def test_reading_shows_no_bodies(queue: Queue) -> None:
    reader = await queue.account.with_scopes(*READ)
    for path in ("peek", "preview", "pull"):
        assert refused(await reader.call("POST", f"{queue.path}/messages/{path}", {}))[:2] == (403, 10000)


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        (Action.SEND, {"/messages", "/messages/batch"}),
        (Action.RECEIVE, {"/messages/pull", "/messages/ack", "/messages/peek"}),
        (Action.BROWSE, {"/messages/peek"}),
        (Action.MANAGE, {"/messages/purge", "/purge"}),
        (Action.STATS, set()),
    ],
)
async def test_each_right_allows_its_own_calls_and_no_others(queue: Queue, action: Action, allowed: set[str]) -> None:
    caller = await queue.account.with_scopes(action)
    orders: dict[str, Any] = {
        "/messages": {"body": {}},
        "/messages/batch": {"messages": [{"body": {}}]},
        "/messages/pull": {},
        "/messages/ack": {},
        "/messages/peek": {},
        "/messages/purge": {"refs": []},
        "/purge": {"delete_messages_permanently": True},
    }
    for path, order in orders.items():
        status = (await caller.call("POST", queue.path + path, order)).status
        assert status == (200 if path in allowed else 403), path


async def test_a_credential_sees_the_queues_that_it_has_a_right_on(queue: Queue) -> None:
    await queue.account.queue("secret", pull=False)
    sender = await queue.account.with_scopes(Action.SEND, queues=("orders",))
    assert [listed["queue_name"] for listed in await sender.result("GET", "/queues")] == ["orders"]
    assert refused(await sender.call("GET", "/queues/secret"))[:2] == (403, 10000)
    nobody = await queue.account.with_scopes()
    assert await nobody.result("GET", "/queues") == []


async def test_creating_queues_needs_the_right_to_manage_them_all(queue: Queue) -> None:
    some = await queue.account.with_scopes(Action.MANAGE, queues=("orders",))
    assert refused(await some.call("POST", "/queues", {"queue_name": "another"}))[:2] == (403, 10000)
    everything = await queue.account.with_scopes(Action.MANAGE)
    await everything.result("POST", "/queues", {"queue_name": "another"})


async def test_too_many_requests_of_one_credential_are_told_when_to_come_back(queue: Queue) -> None:
    _, secret = await queue.account.app.services.catalog.create_credential(
        "default", "slow", scopes=[Scope(Action.SEND)], requests_per_second=2, principal="test"
    )
    slow = Account(queue.account.app, token=secret)
    responses = [await slow.call("POST", f"{queue.path}/messages", {"body": {}}) for _ in range(4)]
    assert [response.status for response in responses] == [200, 200, 429, 429]
    status, code, sentence = refused(responses[-1])
    assert (status, code) == (429, 10250)
    assert sentence.startswith("too many requests")
    assert responses[-1].headers["retry-after"] == "1"
    assert await queue.count() == 2


async def test_queues_that_belong_to_listeners_are_not_there(queue: Queue) -> None:
    catalog = queue.account.app.services.catalog
    before = {known.id for known in catalog.all_queues()}
    kept = catalog.queue("default", queue.id)
    await catalog.create_listener(kept, "listener", "http://127.0.0.1:9/", principal="test")
    hidden = [known.id for known in catalog.all_queues() if known.id not in before]
    assert hidden
    assert [listed["queue_id"] for listed in await queue.account.result("GET", "/queues")] == [queue.id]
    for queue_id in hidden:
        assert refused(await queue.account.call("GET", f"/queues/{queue_id}"))[:2] == (404, 11000)
        assert refused(await queue.account.call("POST", f"/queues/{queue_id}/messages", {"body": {}}))[:2] == (
            404,
            10104,
        )
        order = {"type": "http_pull", "dead_letter_queue": queue_id}
        (consumer,) = await queue.result("GET", "/consumers")
        await queue.call("PUT", f"/consumers/{consumer['consumer_id']}", order)
        assert catalog.queue("default", queue.id).settings.dead_letter_queue not in hidden
