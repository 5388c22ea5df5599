"""What one connection can cost: every phase has a bound in bytes, and what is ambiguous is refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from couriermq.web.asgi import HALF_CLOSED, OVERLOADED
from couriermq.web.exchange import DRAIN_BYTES
from couriermq.web.head import HEAD_BYTES, HEADER_COUNT
from couriermq.web.protocol import LAST_WORDS_SECONDS, LINGER_BYTES, LINGER_SECONDS
from tests.support.eventually import eventually
from tests.support.peer import DEADLINES, GET, Peer


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    for task in peer.state.tasks:
        task.cancel()


# -- requests that are refused by their head ------------------------------------------------------------------

CHUNKED = b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
POST = b"POST /a HTTP/1.1\r\nhost: x\r\n"

REFUSED = {
    "no host": (b"GET /a HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET /a HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n", 400),
    "two hosts of an old client": (b"GET /a HTTP/1.0\r\nhost: x\r\nHost: y\r\n\r\n", 400),
    "a host that is none": (b"GET /a HTTP/1.1\r\nhost: x/y\r\n\r\n", 400),
    "two credentials": (b"GET /a HTTP/1.1\r\nhost: x\r\nauthorization: a\r\nAuthorization: b\r\n\r\n", 400),
    "two api keys": (b"GET /a HTTP/1.1\r\nhost: x\r\nx-api-key: a\r\nX-API-Key: a\r\n\r\n", 400),
    "gzip before chunks": (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "gzip on a line of its own": (POST + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n", 400),
    "gzip without chunks": (POST + b"transfer-encoding: gzip\r\n\r\n", 400),
    "chunks twice": (POST + b"transfer-encoding: chunked, chunked\r\n\r\n", 400),
    "both framings": (POST + b"transfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n", 400),
    "both framings, the other way": (POST + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
    "two lengths": (POST + b"content-length: 1\r\ncontent-length: 1\r\n\r\n", 400),
    "chunks of an old client": (b"POST /a HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "another version": (b"GET /a HTTP/2.0\r\nhost: x\r\n\r\n", 505),
}


@pytest.mark.parametrize(("request_bytes", "status"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_request_that_two_readers_could_understand_differently_is_refused(
    peer: Peer, request_bytes: bytes, status: int
) -> None:
    await peer.say(request_bytes)
    assert (int(peer.answers[0][:3]), len(peer.answers), peer.asked) == (status, 1, [])
    assert peer.transport.finished


# -- chunks and trailers --------------------------------------------------------------------------------------


async def test_nothing_of_a_trailer_becomes_a_header(peer: Peer) -> None:
    await peer.say(CHUNKED, b"2\r\nhi\r\n0\r\nauthorization: Bearer root\r\nhost: y\r\n\r\n", GET)
    assert peer.asked[0]["headers"] == [(b"host", b"x"), (b"transfer-encoding", b"chunked")]
    assert [answer[:3] for answer in peer.answers] == [b"200", b"200"]


@pytest.mark.parametrize("trailer", [b"a:b\r\n" * 200, b"x" * 1_000], ids=["many", "one without end"])
async def test_trailers_without_end_are_cut_off(peer: Peer, trailer: bytes) -> None:
    await peer.say(CHUNKED + b"0\r\n" + (b"a: " if trailer[:1] == b"x" else b""))
    for _ in range(2 * HEAD_BYTES // len(trailer)):
        await peer.say(trailer)
    assert (peer.answers[0][:3], peer.transport.finished, peer.bodies) == (b"431", True, [])


async def test_trailers_in_one_large_read_are_cut_off_too(peer: Peer) -> None:
    await peer.say(CHUNKED + b"0\r\n" + b"a:b\r\n" * 50_000 + b"\r\n")
    assert (peer.answers[0][:3], peer.bodies) == (b"431", [])


async def test_chunk_extensions_without_end_are_cut_off(peer: Peer) -> None:
    await peer.say(CHUNKED + b"5;")
    for _ in range(2 * HEAD_BYTES // 1_000):
        await peer.say(b"x" * 1_000)
    assert (peer.answers[0][:3], peer.transport.finished) == (b"431", True)


async def test_the_smallest_chunks_are_no_offence(peer: Peer) -> None:
    await peer.say(CHUNKED, *[b"1\r\nx\r\n" * 1_000] * 60, b"0\r\n\r\n")
    for _ in range(100):
        await peer.settle()
    assert peer.bodies == [b"x" * 60_000]


async def test_small_chunks_are_parsed_in_turns_with_others(peer: Peer) -> None:
    peer.connection.data_received(CHUNKED + b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n")
    assert peer.connection._reading is not None
    assert 0 < peer.connection._reading.body_bytes < 5_000
    for _ in range(100):
        await peer.settle()
    assert (peer.bodies, peer.budget.used) == ([b"x" * 40_000], 0)


async def test_trailers_must_end_in_time(peer: Peer) -> None:
    await peer.say(CHUNKED + b"0\r\na: b")
    peer.pass_time(DEADLINES.body + 1)
    await peer.settle()
    assert (peer.answers[0][:3], peer.transport.finished) == (b"408", True)


async def test_headers_in_one_large_read_are_cut_off_too(peer: Peer) -> None:
    await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 30_000 + b"\r\n")
    assert (peer.answers[0][:3], peer.asked) == (b"431", [])


async def test_too_many_headers_are_refused(peer: Peer) -> None:
    for count, status in ((HEADER_COUNT - 1, b"200"), (HEADER_COUNT, b"431")):
        await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\n" + b"a:b\r\n" * count + b"\r\n")
        assert peer.answers[-1][:3] == status


async def test_the_memory_of_heads_that_do_not_end_is_counted(peer: Peer) -> None:
    await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\na: " + b"x" * 10_000)
    assert peer.budget.used > 10_000
    await peer.say(b"\r\n\r\n")
    assert (peer.budget.used, len(peer.answers)) == (0, 1)
    await peer.say(b"GET /a HTTP/1.1\r\na: " + b"x" * 10_000)
    peer.connection.connection_lost(None)
    assert peer.budget.used == 0


async def test_a_head_without_room_in_memory_is_refused(peer: Peer) -> None:
    peer.budget.take(peer.budget.limit)
    await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\na: " + b"x" * 10_000)
    assert (peer.answers[0][:3], peer.transport.finished) == (b"503", True)


async def test_an_old_client_is_not_told_to_continue(peer: Peer) -> None:
    await peer.say(b"POST /a HTTP/1.0\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n", b"hi")
    assert [answer[:3] for answer in peer.answers] == [b"200"]


# -- requests ahead of their answers --------------------------------------------------------------------------


async def read_all(peer: Peer, requests: bytes, *, read_bytes: int = 256 * 1024) -> None:
    """Hand requests over as a transport does: nothing while reading is paused."""
    for start in range(0, len(requests), read_bytes):
        while peer.transport.reading_paused:
            await asyncio.sleep(0)
        peer.connection.data_received(requests[start : start + read_bytes])
    while peer.connection._answering is not None:
        await asyncio.sleep(0)


async def test_ten_thousand_requests_ahead_are_answered_in_order(peer: Peer) -> None:
    await read_all(peer, b"".join(b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(10_000)))
    assert [scope["path"] for scope in peer.asked] == [f"/{number}" for number in range(10_000)]
    assert (len(peer.answers), peer.budget.used, peer.transport.finished) == (10_000, 0, False)


async def test_few_requests_are_parsed_ahead_of_their_answers(peer: Peer) -> None:
    peer.proceed.clear()
    peer.connection.data_received(GET * 5_000)
    await peer.settle()
    assert peer.transport.reading_paused
    assert len(peer.connection._pipeline) < 100
    assert 0 < peer.budget.used <= len(GET) * 5_000


async def test_five_thousand_offers_to_upgrade_are_passed_over(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    offer = b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    await read_all(peer, offer * 5_000)
    assert (len(peer.answers), caplog.text) == (5_000, "")


async def test_requests_ahead_without_room_in_memory_are_refused_after_the_answers(peer: Peer) -> None:
    peer.proceed.clear()
    peer.budget.take(peer.budget.limit)
    peer.connection.data_received(GET * 1_000)
    peer.proceed.set()
    for _ in range(1_000):
        await peer.settle()
    assert (peer.answers[0][:3], peer.answers[-1][:3], peer.transport.finished) == (b"200", b"503", True)


async def test_a_client_that_leaves_gives_back_what_it_sent_ahead(peer: Peer) -> None:
    peer.proceed.clear()
    peer.connection.data_received(GET * 1_000)
    peer.connection.connection_lost(None)
    assert peer.budget.used == 0


# -- memory ---------------------------------------------------------------------------------------------------


async def test_a_large_body_waits_for_room_and_then_goes_on(peer: Peer) -> None:
    peer.budget.take(700_000)
    await peer.say(POST + b"content-length: 100000\r\n\r\n")
    await peer.say(b"x" * 100_000)
    assert peer.bodies == []
    peer.budget.give(700_000)
    await peer.settle()
    assert ([len(body) for body in peer.bodies], peer.budget.used) == ([100_000], 0)


async def test_a_large_body_that_finds_no_room_is_told_so(peer: Peer) -> None:
    peer.budget.room_seconds = 0
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        told.append((await receive())["type"])
        await refuse(scope, receive, send)

    peer.state.app = app
    peer.budget.take(700_000)
    await peer.say(POST + b"content-length: 100000\r\n\r\n")
    await eventually(lambda: peer.answers)
    assert (told, peer.answers[0][:3], peer.budget.used) == ([OVERLOADED], b"401", 700_000)


async def test_small_requests_have_room_where_large_ones_have_none(peer: Peer) -> None:
    peer.budget.take(peer.budget.largest)
    await peer.say(POST + b"content-length: 5000\r\n\r\n", b"x" * 4_999)
    assert peer.budget.used == peer.budget.largest + 4_999
    await peer.say(b"x")
    assert (peer.bodies, peer.budget.used) == ([b"x" * 5_000], peer.budget.largest)


async def test_a_body_in_chunks_is_counted_as_it_comes(peer: Peer) -> None:
    peer.budget.take(600_000)
    await peer.say(CHUNKED, *[b"8000\r\n" + b"x" * 0x8000 + b"\r\n"] * 10)
    await peer.settle()
    assert (peer.bodies, peer.overloaded, peer.budget.used) == ([], True, 600_000)


# -- clients that close their sending side --------------------------------------------------------------------


async def test_a_client_that_sends_nothing_more_gets_its_answers(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET + GET)
    assert peer.connection.eof_received() is True
    peer.proceed.set()
    await peer.settle()
    assert ([answer[:3] for answer in peer.answers], peer.transport.closed) == ([b"200", b"200"], True)


async def test_an_idle_client_that_sends_nothing_more_is_closed(peer: Peer) -> None:
    await peer.say(GET)
    assert (peer.connection.eof_received(), peer.transport.closed) == (False, True)


@pytest.mark.parametrize("request_", [POST + b"content-length: 10\r\n\r\nhalf", POST[:-5]])
async def test_a_request_that_the_client_does_not_finish_is_answered_as_its_error(peer: Peer, request_: bytes) -> None:
    await peer.say(request_)
    assert peer.connection.eof_received() is False
    await peer.settle()
    assert (peer.left, peer.answers[0][:3], peer.state.tasks) == ("length" in request_.decode(), b"400", set())


async def test_a_stop_does_not_wait_for_a_response_that_cannot_begin_because_others_are_unread(peer: Peer) -> None:
    peer.connection.pause_writing()
    await peer.say(GET)
    peer.connection.shutdown()
    peer.connection.cut()
    await peer.settle()
    assert (peer.transport.aborted, peer.state.tasks) == (True, set())


async def test_a_stop_does_not_wait_long_for_the_rest_of_a_request(peer: Peer) -> None:
    await peer.say(POST + b"content-length: 10\r\n\r\nhalf")
    peer.connection.shutdown()
    assert peer.connection.deadline <= peer.connection.loop.time() + LAST_WORDS_SECONDS


async def test_a_handler_can_learn_that_the_client_sends_nothing_more(peer: Peer) -> None:
    told: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not told or told[-1] == "http.request":
            told.append((await receive())["type"])
        await peer.answer(send, 200, b"ok")

    peer.state.app = app
    await peer.say(GET)
    peer.connection.eof_received()
    await peer.settle()
    assert (told, peer.answers[0][:3]) == (["http.request", HALF_CLOSED], b"200")


async def test_an_application_that_gives_a_client_up_ends_its_connection(peer: Peer) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != HALF_CLOSED:
            pass

    peer.state.app = app
    await peer.say(GET)
    assert peer.connection.eof_received() is True
    await peer.settle()
    assert (peer.transport.written, peer.transport.closed) == (b"", True)


# -- bodies that nobody wants ----------------------------------------------------------------------------------


async def refuse(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers without reading the body."""
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": b"no", "more_body": False})


UNWANTED = {
    "in chunks": b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
    "long": b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (DRAIN_BYTES + 1),
    "not asked for": b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n",
}


@pytest.mark.parametrize("head", UNWANTED.values(), ids=UNWANTED.keys())
async def test_an_unwanted_body_ends_the_connection_after_the_answer(peer: Peer, head: bytes) -> None:
    peer.state.app = refuse
    await peer.say(head)
    assert (b"connection: close\r\n" in peer.transport.written, peer.transport.ended) == (True, True)
    assert not peer.transport.closed  # a reset would take the answer away
    peer.pass_time(LINGER_SECONDS + 1)
    assert peer.transport.closed


async def test_an_unwanted_body_is_read_on_for_a_bounded_number_of_bytes(peer: Peer) -> None:
    peer.state.app = refuse
    await peer.say(UNWANTED["in chunks"])
    for _ in range(LINGER_BYTES // 2**20):
        peer.connection.data_received(b"x" * 2**20)
    assert not peer.transport.closed
    peer.connection.data_received(b"x")
    assert (peer.transport.closed, peer.budget.used, len(peer.answers)) == (True, 0, 1)


async def test_a_short_unwanted_body_must_come_soon(peer: Peer) -> None:
    peer.state.app = refuse
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n")
    assert not peer.transport.finished
    peer.pass_time(LINGER_SECONDS + 1)
    assert peer.transport.closed


async def test_after_a_short_unwanted_body_the_next_request_is_served(peer: Peer) -> None:
    peer.state.app = refuse
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\n")
    await peer.say(b"body" + GET)
    assert [answer[:3] for answer in peer.answers] == [b"401", b"401"]
