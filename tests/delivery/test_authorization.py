"""How Courier proves itself to receivers."""

import asyncio
import base64

import pytest

from couriermq.clock import FakeClock
from couriermq.core.errors import Invalid
from couriermq.core.model import MINUTE, ListenerSettings
from couriermq.delivery import Outcome
from tests.delivery.conftest import Post
from tests.support.receiver import Manner, Receiver, Request, answer, receiving

GRANT = answer(200, b'{"access_token": "t0ken", "token_type": "Bearer", "expires_in": 600}')


def oauth(token_url: str) -> dict[str, str]:
    return {"type": "oauth", "token_url": token_url, "client_id": "me", "client_secret": "s:cret", "scope": "hooks"}


async def sent_with(post: Post, receiver: Receiver, authorization: dict[str, str]) -> Request:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, authorization=authorization)
    await post.send(queue, b"hello")
    await post.attempts(listener, 1)
    return receiver.requests[0]


async def test_a_bearer_token(post: Post, receiver: Receiver) -> None:
    request = await sent_with(post, receiver, {"type": "bearer", "token": "abc"})
    assert request.headers["authorization"] == "Bearer abc"


async def test_a_user_and_password(post: Post, receiver: Receiver) -> None:
    request = await sent_with(post, receiver, {"type": "basic", "username": "me", "password": "pä:ss"})
    assert request.headers["authorization"] == "Basic " + base64.b64encode("me:pä:ss".encode()).decode()


async def test_client_credentials_fetch_one_token_for_many_deliveries(post: Post, receiver: Receiver) -> None:
    async with receiving(GRANT) as issuer:
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url, authorization=oauth(issuer.url))
        await post.send(queue, *[b"x"] * 20)
        await post.delivered(listener, 20)
        assert {request.headers["authorization"] for request in receiver.requests} == {"Bearer t0ken"}
        (asked,) = issuer.requests
        assert asked.body == b"grant_type=client_credentials&scope=hooks"
        assert asked.headers["authorization"] == "Basic " + base64.b64encode(b"me:s%3Acret").decode()


async def test_a_token_is_renewed_before_it_ends(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    async with receiving(GRANT) as issuer:
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url, authorization=oauth(issuer.url))
        for count, minutes in ((1, 0), (1, 9), (2, 1)):
            clock.advance(ms=minutes * MINUTE)
            await post.send(queue, b"x")
            await post.delivered(listener, len(receiver.requests) + 1)
            assert len(issuer.requests) == count


async def test_a_token_that_is_not_accepted_is_forgotten(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    receiver.behave(answer(401), answer())
    async with receiving(GRANT) as issuer:
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url, authorization=oauth(issuer.url))
        await post.send(queue, b"x")
        await post.attempts(listener, 1)
        clock.advance(ms=MINUTE)
        await post.delivered(listener, 1)
        assert len(issuer.requests) == 2


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        (answer(400), "answered 400"),
        (answer(200, b"hello"), "no access_token"),
        (answer(200, b'{"access_token": "a\\r\\nb"}'), "cannot be sent"),
    ],
)
async def test_without_a_token_the_attempt_fails_and_says_why(
    post: Post, receiver: Receiver, manner: Manner, why: str
) -> None:
    async with receiving(manner) as issuer:
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url, authorization=oauth(issuer.url))
        await post.send(queue, b"x")
        (line,) = await post.attempts(listener, 1)
        assert line.verdict is Outcome.RETRY
        assert why in (line.error or "")
        assert receiver.requests == []


@pytest.mark.parametrize(
    ("authorization", "field"),
    [
        ({}, "authorization.type"),
        ({"type": "magic"}, "authorization.type"),
        ({"type": "bearer"}, "authorization.token"),
        ({"type": "bearer", "token": "a\nb"}, "authorization.token"),
        ({"type": "basic", "username": "x"}, "authorization.password"),
        ({"type": "basic", "username": "x", "password": "y", "realm": "z"}, "authorization.realm"),
        (oauth("http://10.0.0.1/token"), "authorization.token_url"),
        (oauth("nonsense"), "authorization.token_url"),
    ],
)
def test_an_authorization_that_could_not_work_is_refused(post: Post, authorization: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        post.deliveries.check_settings(ListenerSettings(authorization=authorization), tenant="default")
    assert refused.value.field == field


async def test_a_token_url_that_hangs_does_not_outlast_the_attempts_of_others(post: Post, receiver: Receiver) -> None:
    async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with receiving(hang) as issuer:
        queue = await post.queue()
        await post.listen(queue, receiver.url, "stuck", authorization=oauth(issuer.url))
        other = await post.listen(queue, receiver.url, "other")
        await post.send(queue, b"x")
        await post.delivered(other, 1)
        await issuer.wait(1)


@pytest.mark.parametrize("life", ["1e308", "-1e308", "1e999", '"NaN"', '"inf"', "0", "-5", "null"])
async def test_no_life_of_a_token_breaks_a_delivery(post: Post, receiver: Receiver, life: str) -> None:
    async with receiving(answer(200, b'{"access_token": "t0ken", "expires_in": %b}' % life.encode())) as issuer:
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url, authorization=oauth(issuer.url))
        await post.send(queue, b"x")
        (line,) = await post.attempts(listener, 1)
        assert "an error of our own" not in (line.error or "")
