"""What the Cloudflare dialect says where there is nothing, and where something is wrong on our side."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.core.errors import CourierError, Unavailable
from couriermq.dialects.cloudflare.errors import answer_for
from tests.support.cloudflare import Account, Queue, cloudflare_account, refused


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


# -- what is not there ------------------------------------------------------------


@pytest.mark.parametrize("path", ["/messages", "/messages/pull", "/messages/ack", "/messages/peek"])
async def test_messages_of_a_queue_that_does_not_exist(account: Account, path: str) -> None:
    answer = refused(await account.call("POST", f"/queues/0123456789abcdef/{path.lstrip('/')}", {"body": {}}))
    assert answer == (404, 10104, "no queue named '0123456789abcdef'")


async def test_a_queue_that_does_not_exist(account: Account) -> None:
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/consumers"), ("GET", "/metrics")):
        answer = refused(await account.call(method, f"/queues/0123456789abcdef{path}"))
        assert answer == (404, 11000, "no queue named '0123456789abcdef'")


async def test_an_id_that_no_queue_could_have(account: Account) -> None:
    for method, path in (("GET", ""), ("POST", "/messages")):
        answer = refused(await account.call(method, f"/queues/%7Bqueue%7D{path}", {"body": {}}))
        assert answer == (400, 10107, "'{queue}' is neither the id nor the name of a queue")


async def test_a_path_that_is_not_there(queue: Queue) -> None:
    for path in ("/pull", "/ack", "/messages/nothing"):  # the first two are names that the vendor retired
        response = await queue.call("POST", path, {})
        assert refused(response) == (404, 7003, "No route for the URI")
        assert response.json()["messages"] == [f"there is nothing at /client/v4/accounts/default{queue.path}{path}"]
    assert refused(await queue.account.app.request("GET", "/client/v4/zones")) == (404, 7003, "No route for the URI")


async def test_a_method_that_is_not_there(queue: Queue) -> None:
    response = await queue.call("GET", "/messages/pull")
    assert refused(response) == (405, 7001, "GET is not possible here; use POST")
    assert response.headers["allow"] == "POST"


# -- ours ------------------------------------------------------------


async def test_a_store_that_cannot_write_is_told_with_a_time_to_come_back(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full", retry_after_ms=3_000)

    monkeypatch.setattr(type(queue.account.app.store), "send", full)
    response = await queue.call("POST", "/messages", {"body": {}})
    assert refused(response) == (503, 10251, "the disk is full")
    assert response.headers["retry-after"] == "3"


async def test_a_bug_of_ours_says_nothing_about_the_inside(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(type(queue.account.app.store), "send", broken)
    response = await queue.call("POST", "/messages", {"body": {}})
    assert refused(response) == (500, 15000, "Unknown Internal Error")
    assert b"secret" not in response.body


def leaves(kind: type[CourierError]) -> list[type[CourierError]]:
    children = kind.__subclasses__()
    return [leaf for child in children for leaf in leaves(child)] if children else [kind]


@pytest.mark.parametrize("error", leaves(CourierError), ids=lambda error: error.__name__)
def test_every_error_has_an_answer(error: type[CourierError]) -> None:
    assert answer_for(error) is not None
