"""Secrets of a listener are known to those who manage it and to its receiver, and to nobody else."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from couriermq.core.redaction import redacted_url, without_secrets
from tests.delivery.conftest import COURIER, Post
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, Request, receiving

KEYS = ("pathkey1", "querykey2", "headerkey3", "tokenkey4", "livekey5")


async def echo(request: Request, writer: asyncio.StreamWriter) -> None:
    """Repeats all that it was sent, and pads it so that the excerpt ends within a secret."""
    said = f"{request.path} {request.headers}".encode()
    body = b"x" * (505 - len(said) % 7) + said + said
    writer.write(b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


async def echo_at_once(request: Request, writer: asyncio.StreamWriter) -> None:
    said = f"{request.path} {request.headers}".encode()
    writer.write(b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n" % len(said) + said)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://shop.example/", "https://shop.example/"),
        ("https://shop.example", "https://shop.example"),
        ("https://shop.example:8443/hooks/abc", "https://shop.example:8443/…"),
        ("https://shop.example?key=abc", "https://shop.example/…"),
        ("https://user:abc@shop.example/", "https://shop.example/"),
        ("http://[::1]:80/abc", "http://[::1]:80/…"),
        ("https://shop.example#abc", "https://shop.example/…"),
    ],
)
def test_of_a_url_only_the_origin_is_shown(url: str, shown: str) -> None:
    assert redacted_url(url) == shown


def test_the_longest_secret_is_hidden_first() -> None:
    assert without_secrets("a=abcdef b=abcd", ["abcdef", "abcd"]) == "a=… b=…"


async def test_no_secret_enters_the_journal(post: Post) -> None:
    async with receiving(echo_at_once, echo, echo_at_once) as receiver:
        queue = await post.queue()
        listener = await post.listen(
            queue,
            f"{receiver.url}/pathkey1?key=querykey2&x=1",
            liveness_url=f"{receiver.url}/live?key=livekey5",
            headers={"X-Api-Key": "headerkey3"},
            authorization={"type": "bearer", "token": "tokenkey4"},
        )
        await post.send(queue, b"one", b"two")
        lines = await post.attempts(listener, 2)
        await post.catalog.change_listener(listener, name="other", principal="test")
        await post.catalog.delete_listener(listener, principal="test")
    written = msgspec.json.encode(await post.events()) + msgspec.json.encode(lines)
    assert b"listener_added" in written
    assert b"127.0.0.1" in written
    assert [key for key in KEYS if key.encode() in written] == []
    assert b"headerk" not in written


async def test_what_basic_and_oauth_send_is_hidden_too(post: Post, receiver: Receiver) -> None:
    async with receiving(echo_at_once) as echoing:
        queue = await post.queue()
        basic = {"type": "basic", "username": "me", "password": "passw0rd"}
        listener = await post.listen(queue, echoing.url, authorization=basic)
        await post.send(queue, b"one")
        (line,) = await post.attempts(listener, 1)
        assert "bWU6cGFzc3cwcmQ=" not in (line.excerpt or "")
        assert "…" in (line.excerpt or "")


async def test_callers_that_may_not_manage_see_no_secret(tmp_path: Path) -> None:
    async with courier_app(tmp_path, **COURIER) as app:
        queues = "/courier/v1/tenants/default/queues"
        await app.post(queues, {"name": "orders"})
        order = {
            "name": "shop",
            "url": "https://shop.example/pathkey1?key=querykey2",
            "liveness_url": "https://shop.example/livekey5",
            "settings": {
                "headers": {"X-Api-Key": "headerkey3"},
                "authorization": {"type": "bearer", "token": "tokenkey4"},
            },
        }
        assert (await app.post(f"{queues}/orders/listeners", order)).status == 201
        scopes = [{"action": "browse"}, {"action": "stats"}]
        made = await app.post("/courier/v1/tenants/default/credentials", {"name": "reader", "scopes": scopes})
        token = made.json()["secret"]
        seen = b""
        for path in (
            f"{queues}/orders/listeners",
            f"{queues}/orders/listeners/shop",
            "/courier/v1/journal/events",
        ):
            answer = await app.get(path, token=token)
            assert answer.status == 200
            seen += answer.body
        assert [key for key in KEYS if key.encode() in seen] == []
        managed = await app.get(f"{queues}/orders/listeners/shop")
        assert managed.json()["url"] == order["url"]
