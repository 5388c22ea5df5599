"""A publication that takes long is waited for, without Spark."""

from http.client import HTTPConnection, HTTPResponse, RemoteDisconnected
from io import BytesIO
from typing import cast

import pytest

from couriermq.spark import journal, queues
from couriermq.spark.journal import JSON, TIMEOUT_S, Journal, JournalError, NotThere, Unreachable
from couriermq.spark.queues import PUBLISHING_S, Outlet


class Time:
    """Passes only while somebody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Server(Journal):
    """Sends a publication for `takes_s`, and answers nobody who asks for it meanwhile."""

    time: Time
    takes_s = 0.0
    loses_answer = False
    failure: Exception = TimeoutError("timed out")
    is_away = False
    puts = 0

    def send(
        self, method: str, path: str, body: bytes | None = None, media: str = JSON, *,
        accept: str | None = None, timeout_s: float = TIMEOUT_S,
    ) -> tuple[HTTPConnection, HTTPResponse]:  # fmt: skip
        has_ended = self.time.now_s + timeout_s >= self.takes_s
        if method == "PUT":
            self.puts += 1
            self.time.now_s += timeout_s
        if method == "PUT" and (self.loses_answer or not has_ended):
            raise self.failure
        if self.is_away:
            raise ConnectionRefusedError("nobody is there")
        if method == "GET" and self.time.now_s < self.takes_s:
            raise NotThere("no publication named 'query'")
        return HTTPConnection("courier"), cast(HTTPResponse, BytesIO(b'{"number": 7}'))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server("http://courier")
    server.time = Time()
    for module in (journal, queues):
        monkeypatch.setattr(module, "time", server.time, raising=False)
    return server


def publish(server: Server) -> None:
    Outlet(server, "default", "queues", "bills").publish("query", 7, {"s1": 1})


@pytest.mark.parametrize("failure", [TimeoutError("timed out"), RemoteDisconnected("gone"), OSError("busy")])
def test_a_publication_that_takes_longer_than_an_answer_may_is_waited_for(server: Server, failure: Exception) -> None:
    server.takes_s, server.failure = 10 * TIMEOUT_S, failure
    publish(server)
    assert server.time.now_s < server.takes_s + 2 * TIMEOUT_S


def test_a_publication_whose_answer_was_lost_is_not_asked_for_again(server: Server) -> None:
    server.loses_answer = True
    publish(server)
    assert server.puts == 1


def test_a_publication_is_not_waited_for_without_end(server: Server) -> None:
    server.takes_s = 2 * PUBLISHING_S
    with pytest.raises(Unreachable, match="publication 7 of series 'query' has not ended within 60 minutes"):
        publish(server)
    assert server.time.now_s < PUBLISHING_S + 2 * TIMEOUT_S


def test_a_server_that_is_away_is_not_waited_for_longer_than_else(server: Server) -> None:
    server.takes_s, server.is_away = 10 * TIMEOUT_S, True
    with pytest.raises(Unreachable, match="cannot be reached"):
        publish(server)


def test_a_publication_that_is_refused_is_not_tried_again(server: Server) -> None:
    server.takes_s, server.failure = 10 * TIMEOUT_S, JournalError("no stage named 's1'")
    with pytest.raises(JournalError, match="no stage"):
        publish(server)
    assert server.puts == 1
