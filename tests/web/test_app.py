"""From a request to a handler and back, whatever goes wrong on the way."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from couriermq.auth.guard import PREFIX_BURST
from couriermq.auth.principal import Principal
from couriermq.core.errors import CourierError, Forbidden, QueueNotFound, Unavailable
from couriermq.telemetry.traffic import Traffic
from couriermq.web import asgi
from couriermq.web.app import PUBLIC_BODY_BYTES, App
from couriermq.web.call import ANONYMOUS, Call, Reply, Route
from tests.support.inprocess import ROOT_TOKEN, InProcess, courier_app
from tests.support.wire import Wire, request

AUTH = (b"authorization", b"Bearer " + ROOT_TOKEN.encode())
CHUNKED = (b"transfer-encoding", b"chunked")


def length(size: int) -> tuple[bytes, bytes]:
    return (b"content-length", str(size).encode())


class Toy:
    """A dialect whose handlers do what the test wants."""

    name = "toy"
    prefixes: tuple[str, ...] = ("/toy",)

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.cancelled = False
        self.closed = False
        self.go_on = asyncio.Event()

    @property
    def routes(self) -> list[Route]:
        return [
            Route("POST", "/toy/{queue}/messages", self.echo),
            Route("GET", "/toy/{queue}", self.echo),
            Route("POST", "/toy/small", self.echo, body_limit=10),
            Route("GET", "/toy/open", self.echo, public=True, body_limit=500),
            Route("POST", "/toy/token", self.echo, public=True),
            Route("POST", "/toy/none", self.echo, body_limit=0),
            Route("DELETE", "/toy/{queue}", self.empty),
            Route("GET", "/toy/missing", self.missing),
            Route("GET", "/toy/forbidden", self.forbidden),
            Route("GET", "/toy/busy", self.busy),
            Route("GET", "/toy/bug", self.bug),
            Route("GET", "/toy/wait", self.wait, waits=True),
            Route("GET", "/toy/work", self.wait),
            Route("GET", "/toy/stream", self.stream),
        ]

    async def echo(self, call: Call) -> Reply:
        self.calls.append(call)
        return Reply(200, call.body or b"{}")

    async def empty(self, call: Call) -> Reply:
        return Reply(204, b"", ())

    async def missing(self, call: Call) -> Reply:
        raise QueueNotFound("orders")

    async def forbidden(self, call: Call) -> Reply:
        raise Forbidden("send", "'orders'")

    async def busy(self, call: Call) -> Reply:
        raise Unavailable("the disk is full", retry_after_ms=1_500)

    async def bug(self, call: Call) -> Reply:
        raise ZeroDivisionError("the secret recipe")

    async def wait(self, call: Call) -> Reply:
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return Reply(200, b"waited")

    async def stream(self, call: Call) -> Reply:
        return Reply(200, self._numbers())

    async def _numbers(self) -> AsyncIterator[bytes]:
        try:
            for number in range(3):
                yield b"%d" % number
            await self.go_on.wait()
            yield b"end"
        finally:
            self.closed = True

    def authenticate(self, call: Call) -> Principal:
        return call.services.auth.bearer(call)

    def failure(self, error: CourierError, call: Call) -> Reply:
        statuses = {"Unauthenticated": 401, "Throttled": 429, "NoRoute": 404, "MethodNotAllowed": 405}
        if isinstance(error, Forbidden):
            raise KeyError("forgotten")
        body = msgspec.json.encode({"toy": type(error).__name__, "says": str(error)})
        return Reply(statuses.get(type(error).__name__, 400), body)

    def crash(self, call: Call) -> Reply:
        return Reply(500, b'{"toy":"crash"}')


class Nested(Toy):
    name = "nested"
    prefixes: tuple[str, ...] = ("/toy/deep",)

    @property
    def routes(self) -> list[Route]:
        return []


@pytest.fixture
async def courier(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, dialects=(), max_request_bytes=1_000, cors_origins=("https://ui.example",)) as app:
        yield app


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def traffic() -> Traffic:
    return Traffic()


@pytest.fixture
def app(courier: InProcess, toy: Toy, traffic: Traffic) -> App:
    return App([toy, Nested()], courier.services, traffic)


async def ask(app: App, method: str, path: str, *headers: tuple[bytes, bytes], wire: Wire | None = None) -> Wire:
    wire = wire or Wire()
    await asyncio.wait_for(app(request(method, path, *headers), wire.receive, wire.send), 25)
    return wire


# -- the way in -----------------------------------------------------------------------------------------------


async def test_a_handler_sees_the_whole_request(app: App, toy: Toy) -> None:
    wire = await ask(
        app, "POST", "/toy/orders/messages?a=1&a=2&b=", AUTH, length(2), (b"x-own", b"v"), wire=Wire().body(b"{}")
    )
    (call,) = toy.calls
    assert wire.status == 200
    assert (call.method, call.path, call.params) == ("POST", "/toy/orders/messages", {"queue": "orders"})
    assert (call.query, call.argument("a"), call.argument("c")) == ({"a": ["1", "2"], "b": [""]}, "2", None)
    assert (call.header(b"x-own"), call.body, call.principal.is_root) == ("v", b"{}", True)


async def test_without_a_credential_the_dialect_refuses_and_the_body_stays_unread(app: App, toy: Toy) -> None:
    wire = await ask(app, "POST", "/toy/orders/messages", length(2), wire=Wire().body(b"{}"))
    assert (wire.status, msgspec.json.decode(wire.content)["toy"]) == (401, "Unauthenticated")
    assert wire.headers[b"www-authenticate"] == b"Bearer"
    assert (toy.calls, wire.unread) == ([], 1)


async def test_a_public_route_asks_for_no_credential(app: App, toy: Toy) -> None:
    assert (await ask(app, "GET", "/toy/open")).status == 200
    assert toy.calls[0].principal is ANONYMOUS


async def test_a_request_without_a_body_is_not_waited_for(app: App, toy: Toy) -> None:
    assert (await ask(app, "GET", "/toy/orders", AUTH)).status == 200
    assert toy.calls[0].body == b""


# -- bodies ---------------------------------------------------------------------------------------------------


async def test_a_body_may_come_in_pieces(app: App, toy: Toy) -> None:
    wire = Wire().body(b"one ", more=True).body(b"", more=True).body(b"two", more=True).body(b"")
    await ask(app, "POST", "/toy/orders/messages", AUTH, CHUNKED, wire=wire)
    assert toy.calls[0].body == b"one two"


async def test_a_body_that_announces_itself_too_large_is_refused_unread(app: App, toy: Toy) -> None:
    wire = await ask(app, "POST", "/toy/orders/messages", AUTH, length(1_001), wire=Wire().body(b"x" * 1_001))
    assert (wire.status, wire.headers[b"connection"], toy.calls, wire.unread) == (400, b"close", [], 1)
    assert msgspec.json.decode(wire.content)["toy"] == "RequestTooLarge"


async def test_a_body_of_unknown_length_is_refused_as_soon_as_it_is_too_large(app: App, toy: Toy) -> None:
    wire = Wire().body(b"x" * 600, more=True).body(b"x" * 600, more=True).body(b"x" * 600)
    await ask(app, "POST", "/toy/orders/messages", AUTH, CHUNKED, wire=wire)
    assert (msgspec.json.decode(wire.content)["toy"], toy.calls) == ("RequestTooLarge", [])


async def test_a_body_just_as_large_as_allowed_is_taken(app: App, toy: Toy) -> None:
    await ask(app, "POST", "/toy/orders/messages", AUTH, length(1_000), wire=Wire().body(b"x" * 1_000))
    assert len(toy.calls[0].body) == 1_000


async def test_a_route_may_allow_less(app: App, toy: Toy) -> None:
    wire = await ask(app, "POST", "/toy/small", AUTH, length(11), wire=Wire().body(b"x" * 11))
    assert (msgspec.json.decode(wire.content)["toy"], toy.calls) == ("RequestTooLarge", [])


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/toy/open"), ("GET", "/toy/orders"), ("HEAD", "/toy/orders"), ("POST", "/toy/none")]
)
@pytest.mark.parametrize("framing", [length(999_999_999), CHUNKED])
async def test_a_route_without_a_body_reads_none(
    app: App, toy: Toy, method: str, path: str, framing: tuple[bytes, bytes]
) -> None:
    wire = await ask(app, method, path, AUTH, framing, wire=Wire().body(b"x" * 100, more=True))
    assert (wire.status, toy.calls[0].body, wire.unread) == (200, b"", 1)


async def test_a_public_route_takes_a_small_body_only(app: App, toy: Toy) -> None:
    taken = await ask(app, "POST", "/toy/token", length(900), wire=Wire().body(b"x" * 900))
    refused = await ask(app, "POST", "/toy/token", length(PUBLIC_BODY_BYTES + 1), wire=Wire().body(b"x"))
    assert (taken.status, msgspec.json.decode(refused.content)["toy"]) == (200, "RequestTooLarge")
    assert refused.unread == 1


async def test_a_compressed_body_is_refused_with_a_hint_in_the_words_of_the_dialect(app: App, toy: Toy) -> None:
    gzip = (b"content-encoding", b"gzip")
    wire = await ask(app, "POST", "/toy/orders/messages", AUTH, length(9), gzip, wire=Wire().body(b"x" * 9))
    answer = msgspec.json.decode(wire.content)
    assert (answer["toy"], wire.unread, toy.calls) == ("UnsupportedMediaType", 1, [])
    assert answer["says"] == "the request body must be sent without Content-Encoding: 'gzip' is not decompressed here"


async def test_a_body_that_says_it_is_not_compressed_is_taken(app: App, toy: Toy) -> None:
    plain = (b"content-encoding", b"identity")
    await ask(app, "POST", "/toy/orders/messages", AUTH, length(2), plain, wire=Wire().body(b"{}"))
    assert toy.calls[0].body == b"{}"


async def test_a_body_without_room_in_memory_is_refused_for_now(app: App, toy: Toy) -> None:
    wire = await ask(app, "POST", "/toy/orders/messages", AUTH, length(9), wire=Wire().run_out_of_room())
    assert (msgspec.json.decode(wire.content)["toy"], wire.headers[b"retry-after"]) == ("Unavailable", b"1")
    assert toy.calls == []


async def test_a_body_that_takes_too_long_is_answered_and_the_connection_closed(app: App, toy: Toy) -> None:
    wire = Wire().body(b"x", more=True).take_too_long().leave()
    await ask(app, "POST", "/toy/orders/messages", AUTH, length(2), wire=wire)
    assert (msgspec.json.decode(wire.content)["toy"], wire.headers[b"connection"]) == ("RequestTimeout", b"close")
    assert toy.calls == []


async def test_a_client_that_leaves_in_mid_body_is_not_answered(app: App, toy: Toy) -> None:
    wire = await ask(app, "POST", "/toy/orders/messages", AUTH, length(9), wire=Wire().body(b"half", more=True).leave())
    assert (wire.sent, toy.calls) == ([], [])


# -- answers --------------------------------------------------------------------------------------------------


async def test_an_answer_has_its_length_and_no_chatter(app: App) -> None:
    wire = await ask(app, "GET", "/toy/orders", AUTH)
    assert wire.headers == {b"content-type": b"application/json", b"content-length": b"2"}


async def test_no_content_has_no_length(app: App) -> None:
    wire = await ask(app, "DELETE", "/toy/orders", AUTH)
    assert (wire.status, wire.headers, wire.content) == (204, {}, b"")


async def test_head_is_get_without_the_body(app: App, toy: Toy) -> None:
    wire = await ask(app, "HEAD", "/toy/orders", AUTH)
    assert (wire.status, wire.headers[b"content-length"], wire.content) == (200, b"2", b"")
    assert toy.calls[0].method == "GET"


async def test_an_error_is_answered_in_the_words_of_the_dialect(app: App) -> None:
    wire = await ask(app, "GET", "/toy/missing", AUTH)
    assert msgspec.json.decode(wire.content) == {"toy": "QueueNotFound", "says": "no queue named 'orders'"}


async def test_overload_says_when_to_come_back(app: App) -> None:
    wire = await ask(app, "GET", "/toy/busy", AUTH)
    assert wire.headers[b"retry-after"] == b"2"


async def test_a_bug_is_logged_and_tells_the_caller_nothing(app: App, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "couriermq.web"):
        wire = await ask(app, "GET", "/toy/bug", AUTH)
    assert (wire.status, wire.content) == (500, b'{"toy":"crash"}')
    assert "the secret recipe" in caplog.text


async def test_an_error_that_the_dialect_forgot_is_a_bug_too(app: App, caplog: pytest.LogCaptureFixture) -> None:
    wire = await ask(app, "GET", "/toy/forbidden", AUTH)
    assert wire.status == 500
    assert "the dialect could not answer an error" in caplog.text


async def test_even_a_dialect_that_cannot_crash_properly_gets_an_answer_out(
    app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(toy, "crash", lambda call: 1 // 0)
    wire = await ask(app, "GET", "/toy/bug", AUTH)
    assert (wire.status, wire.content) == (500, b'{"error":"something went wrong on our side"}')
    assert "the dialect could not answer a crash" in caplog.text


# -- paths that nobody serves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/toy/a/b/c", {"toy": "NoRoute", "says": "there is nothing at /toy/a/b/c"}),
        ("/toy", {"toy": "NoRoute", "says": "there is nothing at /toy"}),
        ("/toys", {"error": "there is nothing at /toys"}),
        ("/", {"error": "there is nothing at /"}),
    ],
)
async def test_an_unknown_path_is_answered_by_whoever_owns_its_prefix(
    app: App, path: str, words: dict[str, str]
) -> None:
    wire = await ask(app, "GET", path)
    assert (wire.status, msgspec.json.decode(wire.content)) == (404, words)


async def test_the_longest_prefix_wins(app: App, traffic: Traffic) -> None:
    await ask(app, "GET", "/toy/deep/x/y")
    assert ("nested", "", "") in traffic.lanes


async def test_a_wrong_method_learns_the_right_ones(app: App) -> None:
    wire = await ask(app, "PATCH", "/toy/orders", AUTH)
    assert (wire.status, wire.headers[b"allow"]) == (405, b"DELETE, GET, HEAD")


async def test_a_path_that_cannot_be_decoded_is_answered(app: App) -> None:
    wire = await ask(app, "GET", "/toy/%FF")
    assert msgspec.json.decode(wire.content)["toy"] == "MalformedRequest"


# -- clients that leave ---------------------------------------------------------------------------------------


async def test_a_wait_ends_when_its_client_leaves(app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0)
    wire = await ask(app, "GET", "/toy/wait", AUTH, wire=Wire().leave())
    assert (toy.cancelled, wire.sent) == (True, [])


async def test_a_wait_that_is_over_in_time_is_answered(app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0)
    asyncio.get_running_loop().call_later(0.01, toy.go_on.set)
    wire = await ask(app, "GET", "/toy/wait", AUTH)
    assert (wire.content, toy.cancelled) == (b"waited", False)


async def test_a_wait_ends_when_its_client_closes_its_sending_side(
    app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks the same as leaving, and a message must not be leased to somebody who left."""
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0)
    wire = await ask(app, "GET", "/toy/wait", AUTH, wire=Wire().half_close())
    assert (toy.cancelled, wire.sent) == (True, [])


async def test_work_that_does_not_wait_is_never_broken_off(app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0)
    asyncio.get_running_loop().call_later(0.01, toy.go_on.set)
    await ask(app, "GET", "/toy/work", AUTH, wire=Wire().leave())
    assert toy.cancelled is False


async def test_a_server_that_breaks_a_wait_off_is_obeyed(app: App, toy: Toy) -> None:
    wire = Wire()
    task = asyncio.create_task(app(request("GET", "/toy/wait", AUTH), wire.receive, wire.send))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- streams --------------------------------------------------------------------------------------------------


async def test_a_stream_is_sent_as_it_comes(app: App, toy: Toy) -> None:
    toy.go_on.set()
    wire = await ask(app, "GET", "/toy/stream", AUTH)
    assert [event["body"] for event in wire.sent[1:]] == [b"0", b"1", b"2", b"end", b""]
    assert b"content-length" not in wire.headers
    assert (wire.finished, toy.closed) == (True, True)


async def test_a_stream_ends_when_its_client_leaves(app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0)
    wire = await ask(app, "GET", "/toy/stream", AUTH, wire=Wire().leave())
    assert (wire.content, wire.finished, toy.closed) == (b"012", False, True)


async def test_a_stream_goes_on_to_a_client_that_has_closed_its_sending_side(
    app: App, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0)
    asyncio.get_running_loop().call_later(0.01, toy.go_on.set)
    wire = await ask(app, "GET", "/toy/stream", AUTH, wire=Wire().half_close())
    assert (wire.content, wire.finished) == (b"012end", True)


async def test_the_head_of_a_stream_has_no_body(app: App, toy: Toy) -> None:
    wire = await ask(app, "HEAD", "/toy/stream", AUTH)
    assert (wire.status, wire.content, wire.finished) == (200, b"", True)


# -- browsers -------------------------------------------------------------------------------------------------

ORIGIN = (b"origin", b"https://ui.example")


async def test_a_preflight_is_answered_for_an_origin_that_is_allowed(app: App) -> None:
    wire = await ask(
        app,
        "OPTIONS",
        "/toy/orders",
        ORIGIN,
        (b"access-control-request-method", b"DELETE"),
        (b"access-control-request-headers", b"authorization, content-type"),
    )
    assert wire.status == 204
    assert wire.headers[b"access-control-allow-origin"] == b"https://ui.example"
    assert wire.headers[b"access-control-allow-headers"] == b"authorization, content-type"
    assert {b"DELETE", b"PUT", b"PATCH"} <= set(wire.headers[b"access-control-allow-methods"].split(b", "))
    assert len(wire.sent[0]["headers"]) == len(wire.headers)


async def test_a_preflight_from_elsewhere_is_an_ordinary_request(app: App) -> None:
    wire = await ask(
        app,
        "OPTIONS",
        "/toy/orders",
        (b"origin", b"https://evil.example"),
        (b"access-control-request-method", b"DELETE"),
    )
    assert (wire.status, b"access-control-allow-origin" in wire.headers) == (405, False)


@pytest.mark.parametrize(
    ("origin", "allowed"), [(b"https://ui.example", True), (b"https://evil.example", False), (b"null", False)]
)
async def test_only_an_allowed_origin_may_read_the_answer(app: App, origin: bytes, allowed: bool) -> None:
    wire = await ask(app, "GET", "/toy/orders", AUTH, (b"origin", origin))
    assert (wire.headers.get(b"access-control-allow-origin") == origin) is allowed


async def test_errors_can_be_read_by_an_allowed_origin_too(app: App) -> None:
    wire = await ask(app, "GET", "/toy/orders", ORIGIN)
    assert (wire.status, wire.headers[b"access-control-allow-origin"]) == (401, b"https://ui.example")


# -- bad credentials, figures ---------------------------------------------------------------------------------


async def test_an_address_that_keeps_guessing_is_told_to_pause_and_good_credentials_still_work(app: App) -> None:
    wrong = (b"authorization", b"Bearer wrong-token")
    for _ in range(PREFIX_BURST):
        assert (await ask(app, "GET", "/toy/orders", wrong)).status == 401
    refused = await ask(app, "GET", "/toy/orders", wrong)
    assert (refused.status, int(refused.headers[b"retry-after"]) >= 1) == (429, True)
    assert (await ask(app, "GET", "/toy/orders", AUTH)).status == 200


async def test_requests_are_counted_by_route_and_class_of_status(app: App, traffic: Traffic) -> None:
    await ask(app, "GET", "/toy/orders", AUTH)
    await ask(app, "GET", "/toy/invoices", AUTH)
    await ask(app, "GET", "/toy/orders")
    lane = traffic.lanes["toy", "GET", "/toy/{queue}"]
    assert (lane.statuses, lane.latency.count) == ([0, 0, 2, 0, 1, 0], 3)


async def test_paths_that_strangers_invent_share_one_lane(app: App, traffic: Traffic) -> None:
    before = len(traffic.lanes)
    for number in range(5):
        await ask(app, "GET", f"/toy/a/b/{number}")
    assert len(traffic.lanes) == before + 1
