"""Listeners through the native API."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook

from couriermq.clock import SystemClock
from couriermq.dialects.native.openapi import document
from tests.delivery.conftest import COURIER, Post
from tests.support.eventually import eventually
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, answer

QUEUES = "/courier/v1/tenants/default/queues"
LISTENERS = f"{QUEUES}/orders/listeners"


async def create(post: Post, url: str, name: str = "shop", status: int = 201, **facts: Any) -> dict[str, Any]:
    if "orders" not in {queue.name for queue in post.catalog.queues("default")}:
        await post.queue()
    made = await post.app.post(LISTENERS, {"name": name, "url": url, **facts})
    assert made.status == status, made.body
    listener: dict[str, Any] = made.json()
    return listener


async def token_for(post: Post, *actions: str, queues: list[str] | None = None) -> str:
    scopes = [{"action": action, "queues": queues or ["*"]} for action in actions]
    made = await post.app.post("/courier/v1/tenants/default/credentials", {"name": "one", "scopes": scopes})
    return str(made.json()["secret"])


async def test_a_listener_is_created_read_listed_changed_and_deleted(post: Post, receiver: Receiver) -> None:
    made = await create(post, receiver.url, settings={"concurrency": 2, "headers": {"x-shop": "1"}})
    assert (made["name"], made["queue"], made["state"], made["reason"]) == ("shop", "orders", "active", None)
    assert made["secret"].startswith("whsec_")
    assert made["settings"]["concurrency"] == 2
    assert made["settings"]["schedule_ms"][:2] == [5_000, 300_000]
    assert made["counters"] == {"waiting_count": 0, "delivered_count": 0, "dead_letter_count": 0}
    shown = {name: value for name, value in made.items() if name != "secret"}
    shown["secrets"] = [{"created_at": post.clock.now(), "expires_at": None}]
    for name in (made["id"], "shop"):
        assert (await post.app.get(f"{LISTENERS}/{name}")).json() == shown
    listed = (await post.app.get(LISTENERS)).json()
    assert listed == {"listeners": [shown], "next": None}
    assert (await post.app.get("/courier/v1/tenants/default/listeners")).json() == listed
    changed = await post.app.request(
        "PATCH", f"{LISTENERS}/shop", json={"name": "store", "settings": {"timeout_ms": 1_000}}
    )
    assert (changed.json()["name"], changed.json()["settings"]["timeout_ms"]) == ("store", 1_000)
    assert changed.json()["settings"]["headers"] == {"x-shop": "1"}
    assert (await post.app.request("DELETE", f"{LISTENERS}/store")).status == 204
    assert (await post.app.get(f"{LISTENERS}/store")).status == 404


async def test_secrets_are_shown_when_they_are_made_or_asked_for(post: Post, receiver: Receiver) -> None:
    made = await create(post, receiver.url)
    one = f"{LISTENERS}/shop"
    rotated = await post.app.post(f"{one}/rotate-secret", {})
    assert made["secret"] in rotated.body.decode()
    assert rotated.headers["cache-control"] == "no-store"
    secrets = [secret["value"] for secret in rotated.json()["secrets"]]
    for method, path, body in [
        ("GET", one, None),
        ("GET", f"{one}?reveal=false", None),
        ("GET", LISTENERS, None),
        ("GET", "/courier/v1/tenants/default/listeners", None),
        ("PATCH", one, {"settings": {"concurrency": 3}}),
        ("POST", f"{one}/pause", None),
        ("POST", f"{one}/resume", None),
    ]:
        response = await post.app.request(method, path, json=msgspec.UNSET if body is None else body)
        assert (response.status, response.headers["cache-control"]) == (200, "no-store")
        assert not [secret for secret in secrets if secret in response.body.decode()]
    revealed = await post.app.get(f"{one}?reveal=true")
    assert [secret["value"] for secret in revealed.json()["secrets"]] == secrets
    assert revealed.json()["secret"] == secrets[0]
    assert revealed.headers["cache-control"] == "no-store"


async def test_secrets_are_revealed_only_to_those_who_may_manage_the_queue(post: Post, receiver: Receiver) -> None:
    made = await create(post, receiver.url)
    watcher = await token_for(post, "stats", "browse")
    response = await post.app.get(f"{LISTENERS}/shop?reveal=true", token=watcher)
    assert response.status == 403
    assert made["secret"].encode() not in response.body
    assert "secrets" not in (await post.app.get(f"{LISTENERS}/shop", token=watcher)).json()
    assert (await post.app.get(f"{LISTENERS}/shop?reveal=yes")).status == 400


async def test_a_page_of_listeners_at_a_time(post: Post, receiver: Receiver) -> None:
    for number in range(5):
        await create(post, receiver.url, f"l{number}")
    first = (await post.app.get(f"{LISTENERS}?limit=3")).json()
    second = (await post.app.get(f"{LISTENERS}?limit=3&after={first['next']}")).json()
    names = [listener["name"] for page in (first, second) for listener in page["listeners"]]
    assert sorted(names) == [f"l{number}" for number in range(5)]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({"name": "shop"}, "url"),
        ({"url": "http://127.0.0.1/"}, "name"),
        ({"name": "", "url": "http://127.0.0.1/"}, "name"),
        ({"name": "shop", "url": "http://10.0.0.1/"}, "url"),
        ({"name": "shop", "url": "http://[::ffff:10.0.0.1]/"}, "url"),
        ({"name": "shop", "url": "ftp://127.0.0.1/"}, "url"),
        ({"name": "shop", "url": "http://127.0.0.1/", "liveness_url": "http://192.168.0.1/"}, "liveness_url"),
        ({"name": "shop", "url": "http://127.0.0.1/", "secret": "hello"}, "secret"),
        ({"name": "shop", "url": "http://127.0.0.1/", "signing": "rsa"}, "signing"),
        ({"name": "shop", "url": "http://127.0.0.1/", "settings": {"concurrency": 0}}, "settings.concurrency"),
        ({"name": "shop", "url": "http://127.0.0.1/", "settings": {"jitter": 2}}, "settings.jitter"),
        ({"name": "shop", "url": "http://127.0.0.1/", "settings": {"headers": {"host": "x"}}}, "settings.headers"),
        (
            {"name": "shop", "url": "http://127.0.0.1/", "settings": {"authorization": {"type": "bearer"}}},
            "settings.authorization.token",
        ),
        ({"name": "shop", "url": "http://127.0.0.1/", "colour": "red"}, "colour"),
    ],
)
async def test_what_is_wrong_is_named(post: Post, order: dict[str, Any], field: str) -> None:
    await post.queue()
    refused = await post.app.post(LISTENERS, order)
    assert refused.status == 400
    assert refused.json()["field"] == field


async def test_a_name_is_taken_once_a_queue(post: Post, receiver: Receiver) -> None:
    await create(post, receiver.url)
    problem = await create(post, receiver.url, status=409)
    assert problem["type"] == "urn:courier:problem:already-exists"


async def test_secrets_are_for_those_who_may_manage(post: Post, receiver: Receiver) -> None:
    await create(
        post,
        receiver.url,
        settings={"headers": {"x-key": "k3y"}, "authorization": {"type": "bearer", "token": "t0ken"}},
    )
    as_root = (await post.app.get(f"{LISTENERS}/shop?reveal=true")).body
    looking = await post.app.get(f"{LISTENERS}/shop", token=await token_for(post, "browse"))
    assert b"whsec_" in as_root
    assert b"k3y" in as_root
    assert b"t0ken" not in as_root
    assert looking.status == 200
    assert b"whsec_" not in looking.body
    assert b"k3y" not in looking.body
    assert looking.json()["settings"]["authorization"] == {"type": "bearer"}


async def test_a_caller_without_the_right_is_refused(post: Post, receiver: Receiver) -> None:
    await create(post, receiver.url)
    sender = await token_for(post, "send", "receive")
    browser = await token_for(post, "browse")
    assert (await post.app.get(LISTENERS, token=sender)).status == 403
    for path in ("pause", "resume", "rotate-secret", "replay"):
        assert (await post.app.post(f"{LISTENERS}/shop/{path}", {}, token=browser)).status == 403
    assert (await post.app.request("DELETE", f"{LISTENERS}/shop", token=browser)).status == 403


async def test_a_caller_sees_only_the_listeners_of_its_queues(post: Post, receiver: Receiver) -> None:
    await create(post, receiver.url)
    other = await post.queue("other")
    await post.listen(other, receiver.url, "hidden")
    token = await token_for(post, "browse", queues=["orders"])
    listed = await post.app.get("/courier/v1/tenants/default/listeners", token=token)
    assert [listener["name"] for listener in listed.json()["listeners"]] == ["shop"]


async def test_pause_and_resume(post: Post, receiver: Receiver) -> None:
    await create(post, receiver.url)
    paused = await post.app.post(f"{LISTENERS}/shop/pause")
    assert paused.json()["state"] == "paused"
    await post.app.post(f"{QUEUES}/orders/messages", {"body": "hello"})
    assert (await post.app.get(f"{LISTENERS}/shop")).json()["counters"]["waiting_count"] == 1
    resumed = await post.app.post(f"{LISTENERS}/shop/resume")
    assert resumed.json()["state"] == "active"
    await receiver.wait(1)


async def test_the_log_dead_letters_and_replay(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(500, b"broken"))
    made = await create(post, receiver.url, settings={"schedule_ms": []})
    sent = (await post.app.post(f"{QUEUES}/orders/messages", {"body": "hello"})).json()
    listener = post.catalog.listener(post.catalog.queue("default", "orders"), made["id"])
    await post.attempts(listener, 1)
    (line,) = (await post.app.get(f"{LISTENERS}/shop/deliveries")).json()["deliveries"]
    assert line["message_id"] == sent["id"]
    assert (line["verdict"], line["status"], line["excerpt"], line["attempt"]) == ("dead", 500, "broken", 1)
    (letter,) = (await post.app.get(f"{LISTENERS}/shop/dead-letters")).json()["messages"]
    assert (letter["id"], letter["body"]) == (sent["id"], "hello")
    health = (await post.app.get(f"{LISTENERS}/shop")).json()["health"]
    assert (health["failure_count"], health["last_failure_status"]) == (1, 500)
    receiver.behave(answer())
    replayed = await post.app.post(f"{LISTENERS}/shop/replay", {"missed": True})
    assert replayed.json() == {"count": 1, "missing": [], "next_since": None}
    await post.delivered(listener, 1)
    lines = (await post.app.get(f"{LISTENERS}/shop/deliveries?limit=1")).json()
    assert lines["deliveries"][0]["verdict"] == "delivered"


async def test_a_secret_of_ones_own_an_asymmetric_one_and_a_rotation(post: Post, receiver: Receiver) -> None:
    own = await create(post, receiver.url, "own", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert own["secret"] == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    made = await create(post, receiver.url, "pair", signing="ed25519")
    assert made["secret"].startswith("whsk_")
    assert made["secrets"][0]["public_key"].startswith("whpk_")
    rotated = (await post.app.post(f"{LISTENERS}/own/rotate-secret", {"overlap_ms": 60_000})).json()
    assert rotated["secret"] != own["secret"]
    assert [secret["value"] for secret in rotated["secrets"]] == [rotated["secret"], own["secret"]]
    assert rotated["secrets"][1]["expires_at"] == post.clock.now() + 60_000


async def test_receivers_verify_with_the_official_library_also_during_a_rotation(
    tmp_path: Path, receiver: Receiver
) -> None:
    async with courier_app(tmp_path, clock=SystemClock(), **COURIER) as app:
        post = Post(app)
        made = await create(post, receiver.url)
        rotated = (await post.app.post(f"{LISTENERS}/shop/rotate-secret")).json()
        await post.app.post(f"{QUEUES}/orders/messages", {"json": {"order": 7}})
        await receiver.wait(1)
        for secret in (made["secret"], rotated["secret"]):
            assert Webhook(secret).verify(receiver.bodies[0], receiver.requests[0].headers) == {"order": 7}


async def test_a_disabled_listener_says_why(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(410))
    made = await create(post, receiver.url)
    await post.app.post(f"{QUEUES}/orders/messages", {"body": "hello"})
    listener = post.catalog.listener(post.catalog.queue("default", "orders"), made["id"])
    await eventually(lambda: post.now(listener).reason)
    found = (await post.app.get(f"{LISTENERS}/shop")).json()
    assert (found["state"], found["reason"]) == ("disabled", "the receiver answered 410 Gone")


def test_the_document_describes_every_listener_operation() -> None:
    paths = document()["paths"]
    base = "/courier/v1/tenants/{tenant}/queues/{queue}/listeners"
    one = base + "/{listener}"
    assert set(paths[base]) >= {"get", "post"}
    assert set(paths[one]) >= {"get", "patch", "delete"}
    for verb in ("pause", "resume", "rotate-secret", "replay"):
        assert "post" in paths[f"{one}/{verb}"]
    assert "get" in paths[f"{one}/deliveries"]
    assert "get" in paths[f"{one}/dead-letters"]
