"""A connection as the network sees it: bytes in, bytes out, and every phase has its end."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.web.asgi import Receive, Scope, Send
from couriermq.web.head import HEAD_BYTES
from couriermq.web.protocol import LAST_WORDS_SECONDS
from tests.support.peer import DEADLINES, GET, Peer


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    for task in peer.state.tasks:
        task.cancel()


# -- requests -------------------------------------------------------------------------------------------------


async def test_a_request_is_asked_and_answered_in_one_write(peer: Peer) -> None:
    await peer.say(b"POST /a%2Fb?c=%20d HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
    (scope,) = peer.asked
    assert (scope["method"], scope["path"], scope["raw_path"]) == ("POST", "/a/b", b"/a%2Fb")
    assert (scope["query_string"], scope["client"], scope["http_version"]) == (b"c=%20d", ("192.0.2.1", 5000), "1.1")
    assert scope["headers"] == [(b"host", b"x"), (b"content-length", b"5")]
    assert peer.transport.written == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    assert peer.transport.writes == 1


async def test_a_request_may_arrive_byte_by_byte(peer: Peer) -> None:
    request = b"POST /a HTTP/1.1\r\nhost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    for index in range(len(request)):
        await peer.say(request[index : index + 1])
    assert peer.bodies == [b"abcde"]


async def test_a_whole_url_is_taken_for_its_path(peer: Peer) -> None:
    await peer.say(b"GET http://other.example/a/b?c=1 HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (peer.asked[0]["raw_path"], peer.asked[0]["query_string"]) == (b"/a/b", b"c=1")


async def test_requests_sent_ahead_are_answered_in_their_order(peer: Peer) -> None:
    post = b"POST /b HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n"
    await peer.say(GET + post + b"1" + post + b"2")
    assert [answer[-1:] for answer in peer.answers] == [b"k", b"1", b"2"]


async def test_nothing_more_is_read_while_requests_are_waiting(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET, GET)
    assert (len(peer.asked), peer.transport.reading_paused) == (1, True)
    peer.proceed.set()
    await peer.settle()
    assert (len(peer.asked), peer.transport.reading_paused) == (2, False)


async def test_a_body_is_read_no_faster_than_it_is_wanted(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET)
    await peer.say(b"POST /b HTTP/1.1\r\nhost: x\r\ncontent-length: 900000\r\n\r\n")
    assert peer.transport.reading_paused is True


async def test_continue_is_said_only_when_the_body_is_wanted(peer: Peer) -> None:
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n")
    assert peer.transport.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    await peer.say(b"hi")
    assert peer.answers[1].startswith(b"200 OK")


async def test_a_client_that_wants_to_close_is_closed_after_its_answer(peer: Peer) -> None:
    await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    assert b"connection: close\r\n" in peer.transport.written
    assert peer.transport.closed


async def test_an_old_client_is_closed_after_its_answer(peer: Peer) -> None:
    await peer.say(b"GET /a HTTP/1.0\r\n\r\n")
    assert (peer.transport.closed, peer.asked[0]["http_version"]) == (True, "1.0")


async def test_an_offer_to_upgrade_is_passed_over(peer: Peer) -> None:
    upgrade = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n"
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n" + upgrade + b"\r\nhi" + GET)
    assert [answer[-2:] for answer in peer.answers] == [b"hi", b"ok"]
    assert (b"content-length", b"2") in peer.asked[0]["headers"]


async def test_we_are_no_proxy(peer: Peer) -> None:
    await peer.say(b"CONNECT other.example:443 HTTP/1.1\r\nhost: other.example\r\n\r\n")
    assert (peer.answers[0][:3], peer.transport.finished, peer.asked) == (b"400", True, [])


REQUESTS = (
    GET,
    b"POST /b HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
    b"\r\nPUT /c HTTP/1.1\r\nhost:x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nchunk\r\n2;x=y\r\ned\r\n0\r\nt:t\r\n\r\n",
    b"POST /d HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
    b"POST /e HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 2\r\n\r\nup",
)


@given(chosen=st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6), cuts=st.sets(st.integers(1, 400)))
def test_however_requests_are_cut_into_packets_they_mean_the_same(chosen: list[bytes], cuts: set[int]) -> None:
    async def answers(*packets: bytes) -> tuple[list[bytes], list[str]]:
        peer = Peer()
        await peer.say(*packets)
        for _ in chosen:
            await peer.settle()
        return peer.bodies, [scope["raw_path"] for scope in peer.asked]

    data = b"".join(chosen)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    packets = [data[start:end] for start, end in itertools.pairwise(edges)]
    assert asyncio.run(answers(*packets)) == asyncio.run(answers(data))
    assert len(asyncio.run(answers(*packets))[0]) == len(chosen)


# -- streams --------------------------------------------------------------------------------------------------


async def stream(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for part in (b"one", b"", b"three"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def test_a_stream_is_sent_in_chunks(peer: Peer) -> None:
    peer.state.app = stream
    await peer.say(GET)
    head, _, body = peer.transport.written.partition(b"\r\n\r\n")
    assert (b"transfer-encoding: chunked" in head, body) == (True, b"3\r\none\r\n5\r\nthree\r\n0\r\n\r\n")
    assert not peer.transport.closed


async def test_to_an_old_client_a_stream_ends_with_the_connection(peer: Peer) -> None:
    peer.state.app = stream
    await peer.say(b"GET /a HTTP/1.0\r\n\r\n")
    assert (peer.transport.written.endswith(b"\r\n\r\nonethree"), peer.transport.closed) == (True, True)


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb"])
async def test_a_header_cannot_smuggle_in_another(peer: Peer, value: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await peer.answer(send, 200, b"ok", (b"x-name", value))

    peer.state.app = app
    await peer.say(GET)
    assert (peer.transport.written, peer.transport.aborted) == (b"", True)


# -- what is not a request ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET /a HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /a HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_noise_is_answered_with_400_and_the_door(peer: Peer, noise: bytes) -> None:
    await peer.say(noise)
    assert peer.transport.written.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert peer.transport.finished


async def test_noise_after_a_good_request_is_answered_after_it(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET + b"\x00\x00\x00\x00")
    peer.proceed.set()
    await peer.settle()
    assert ([answer[:3] for answer in peer.answers], peer.transport.finished) == ([b"200", b"400"], True)


async def test_headers_without_end_are_cut_off(peer: Peer) -> None:
    await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\nx-long: ")
    for _ in range(HEAD_BYTES // 1_000 + 1):
        await peer.say(b"y" * 1_000)
    assert peer.transport.written.startswith(b"HTTP/1.1 431 ")
    assert peer.transport.finished


async def test_many_requests_on_one_connection_do_not_add_up_to_long_headers(peer: Peer) -> None:
    for _ in range(5):
        await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 30_000 + b"\r\n\r\n")
    assert len(peer.answers) == 5


async def test_one_connection_too_many_is_told_to_come_back(peer: Peer) -> None:
    for _ in range(DEADLINES.max_connections):
        peer.connect()
    assert peer.transport.written.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in peer.transport.written
    await peer.say(GET)
    assert (peer.transport.closed, peer.asked) == (True, [])


async def test_an_application_that_breaks_ends_its_connection(peer: Peer, caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("broken")

    peer.state.app = app
    await peer.say(GET)
    assert peer.transport.aborted
    assert "broken" in caplog.text


# -- slow and silent clients ----------------------------------------------------------------------------------


async def test_a_client_that_says_nothing_is_closed(peer: Peer) -> None:
    peer.pass_time(DEADLINES.head - 1)
    assert not peer.transport.closed
    peer.pass_time(DEADLINES.head + 1)
    assert (peer.transport.closed, peer.transport.written) == (True, b"")


async def test_a_client_that_dribbles_its_headers_is_closed_however_busy_it_is(peer: Peer) -> None:
    await peer.say(*[bytes([byte]) for byte in b"GET /a HTTP/1.1\r\nhost: x\r\nx-slow: 1\r\n"])
    peer.pass_time(DEADLINES.head + 1)
    assert (peer.transport.written.startswith(b"HTTP/1.1 408 "), peer.transport.finished) == (True, True)


async def test_blank_lines_do_not_keep_a_connection_open(peer: Peer) -> None:
    await peer.say(GET, b"\r\n" * 10)
    peer.pass_time(DEADLINES.idle + 1)
    assert peer.transport.closed


async def test_a_body_that_does_not_come_is_answered_by_the_application(peer: Peer) -> None:
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf")
    peer.pass_time(DEADLINES.body + 1)
    await peer.settle()
    assert (peer.answers[0][:3], peer.transport.finished) == (b"408", True)


async def test_an_application_that_does_not_react_to_the_end_of_time_is_cut_off(peer: Peer) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await peer.proceed.wait()

    peer.proceed.clear()
    peer.state.app = app
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf")
    peer.pass_time(DEADLINES.body + 1)
    peer.pass_time(DEADLINES.body + LAST_WORDS_SECONDS)
    assert not peer.transport.aborted
    peer.pass_time(DEADLINES.body + LAST_WORDS_SECONDS + 2)
    assert peer.transport.aborted


async def test_a_handler_may_take_its_time(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET)
    peer.pass_time(10_000)
    assert (peer.transport.closed, peer.transport.aborted) == (False, False)


async def test_an_idle_connection_is_closed(peer: Peer) -> None:
    await peer.say(GET)
    peer.pass_time(DEADLINES.idle - 1)
    assert not peer.transport.closed
    peer.pass_time(DEADLINES.idle + 1)
    assert peer.transport.closed


async def test_a_second_request_must_arrive_in_time_too(peer: Peer) -> None:
    await peer.say(GET, b"GET /a HT")
    peer.pass_time(DEADLINES.head + 1)
    assert (peer.answers[1][:3], peer.transport.finished) == (b"408", True)


async def test_a_head_begun_during_an_answer_has_its_time_from_then_on(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET, b"GET /a HT")
    peer.proceed.set()
    await peer.settle()
    peer.pass_time(DEADLINES.head + 1)
    assert peer.transport.finished


async def test_a_client_that_does_not_read_is_cut_off(peer: Peer) -> None:
    await peer.say(GET)
    peer.connection.pause_writing()
    peer.pass_time(DEADLINES.write - 11)
    peer.connection.resume_writing()
    peer.connection.pause_writing()
    assert not peer.transport.aborted
    peer.pass_time(DEADLINES.write + 1)
    assert peer.transport.aborted


async def test_a_writer_waits_for_its_reader(peer: Peer) -> None:
    peer.connection.pause_writing()
    await peer.say(GET)
    assert peer.transport.written == b""
    peer.connection.resume_writing()
    await peer.settle()
    assert peer.answers[0].startswith(b"200 OK")


async def test_a_close_that_never_ends_is_cut_off(peer: Peer) -> None:
    await peer.say(b"GET /a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    peer.connection.resume_writing()
    peer.pass_time(DEADLINES.write + 1)
    assert peer.transport.aborted


# -- the end --------------------------------------------------------------------------------------------------


async def test_a_client_that_leaves_is_noticed(peer: Peer) -> None:
    await peer.say(b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf")
    peer.connection.connection_lost(None)
    await peer.settle()
    assert (peer.left, peer.state.connections, peer.state.tasks) == (True, set(), set())


async def test_what_is_written_to_a_client_that_left_goes_nowhere(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET)
    peer.connection.connection_lost(None)
    peer.proceed.set()
    await peer.settle()
    assert peer.transport.written == b""


async def test_a_writer_is_not_left_waiting_for_a_reader_that_left(peer: Peer) -> None:
    peer.connection.pause_writing()
    await peer.say(GET)
    peer.connection.connection_lost(None)
    await peer.settle()
    assert peer.state.tasks == set()


async def test_a_shutdown_closes_what_is_idle(peer: Peer) -> None:
    await peer.say(GET)
    peer.connection.shutdown()
    assert peer.transport.closed


async def test_a_shutdown_lets_an_answer_finish_first(peer: Peer) -> None:
    peer.proceed.clear()
    await peer.say(GET)
    peer.connection.shutdown()
    assert not peer.transport.closed
    peer.proceed.set()
    await peer.settle()
    assert (b"connection: close\r\n" in peer.transport.written, peer.transport.closed) == (True, True)
