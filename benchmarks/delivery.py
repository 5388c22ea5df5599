"""Deliveries: how long from send to arrival, how many a second at most, and what a dead listener costs others."""

import contextlib
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.client import QUEUES, Client
from benchmarks.measure import Row
from benchmarks.offer import offer, stamped
from benchmarks.processes import Courier, Receiver
from benchmarks.receiver import Stats

QUEUE = "orders"
BATCH = 100
BACKLOG = 2_000
"""How far the sender may be ahead of the receiver when everything goes flat out."""
LISTENERS = 100
SHARED_RATE = 500
PATIENCE_S = 60.0
SETTINGS = {"delivery_allow": "127.0.0.0/8"}


def at_rate(bench: Bench, *, rate: int, bar: float | None = None) -> list[Row]:
    """p95 from send to arrival, one message a request, while `rate` come in every second."""
    with _prepared(bench) as (server, client, receiver):
        paths = [_listen(client, receiver, QUEUE)]
        before = server.cpu_s()
        rounds = [_offered(server, receiver, paths, rate=rate, seconds=bench.seconds * 2) for _ in range(bench.rounds)]
        cpu_us = (server.cpu_s() - before) * 1e6 / sum(stats.count for stats in rounds)
        left = client.waiting_for(QUEUE)
    p95 = [stats.p95_ms for stats in rounds[1:]]
    return [
        Row(
            name=f"deliver-{rate}",
            what=f"p95 from send to arrival, {rate:,} messages/s offered",
            value=median(p95),
            unit="ms",
            reference="",
            ratios=p95,
            bar=bar,
            at_least=False,
            cpu_us=cpu_us,
            notes={
                "p50_ms": median(stats.p50_ms for stats in rounds[1:]),
                "p99_ms": median(stats.p99_ms for stats in rounds[1:]),
                "rate": median(stats.count / stats.seconds for stats in rounds[1:]),
                "backlog": left,
            },
        )
    ]


def flat_out(bench: Bench) -> list[Row]:
    """Deliveries a second while messages are sent as fast as they are delivered, intake included."""
    with _prepared(bench) as (server, client, receiver):
        _listen(client, receiver, QUEUE)
        before = server.cpu_s()
        rounds = [_pushed(client, receiver, seconds=bench.seconds * 2) for _ in range(bench.rounds)]
        cpu_us = (server.cpu_s() - before) * 1e6 / sum(stats.count for stats in rounds)
    rates = [stats.count / stats.seconds for stats in rounds[1:]]
    return [
        Row(
            name="deliver-max",
            what="deliveries/s flat out, intake included",
            value=median(rates),
            unit="messages/s",
            reference="",
            ratios=rates,
            bar=2_500,
            cpu_us=cpu_us,
            notes={
                "p50_ms": median(stats.p50_ms for stats in rounds[1:]),
                "p99_ms": median(stats.p99_ms for stats in rounds[1:]),
            },
        )
    ]


def one_dead(bench: Bench) -> list[Row]:
    """p95 of 99 listeners while the hundredth hangs, by the same while it is well."""
    with _prepared(bench) as (server, client, receiver):
        paths = [_listen(client, receiver, f"q{number}", path=f"/hook/{number}") for number in range(LISTENERS)]
        others, ratios, arrived, before = paths[1:], [], 0, server.cpu_s()

        def measured(url: str) -> float:
            nonlocal arrived
            client.call("PATCH", f"{QUEUES}/q0/listeners/receiver", {"url": url})
            client.call("POST", f"{QUEUES}/q0/listeners/receiver/resume")
            stats = _offered(server, receiver, paths, rate=SHARED_RATE, seconds=bench.seconds * 2, among=len(others))
            arrived += stats.count
            return stats.p95_ms

        well = measured(receiver.url + "/hook/0")
        for _ in range(bench.rounds):
            dead = measured(receiver.url + "/hang")
            again = measured(receiver.url + "/hook/0")
            ratios.append(2 * dead / (well + again))
            well = again
        cpu_us = (server.cpu_s() - before) * 1e6 / arrived
    return [
        Row(
            name="deliver-dead",
            what=f"p95 of the others with 1 of {LISTENERS} listeners dead, {SHARED_RATE}/s",
            value=well,
            unit="ms",
            reference="all well",
            ratios=ratios,
            bar=1.2,
            at_least=False,
            cpu_us=cpu_us,
        )
    ]


@contextlib.contextmanager
def _prepared(bench: Bench) -> Iterator[tuple[Courier, "_Client", Receiver]]:
    with Receiver(bench.directory) as receiver, bench.courier(SETTINGS) as (server, client):
        yield server, _Client(client), receiver


class _Client:
    """What these rows ask of Courier beyond what every row does."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.create_queue = client.create_queue

    def call(self, method: str, path: str, document: Any = None) -> Any:
        return self._client.call(method, path, document)

    def waiting_for(self, queue: str) -> int:
        found = self.call("GET", f"{QUEUES}/{queue}/listeners/receiver")
        return int(found["counters"]["waiting_count"])


def _listen(client: _Client, receiver: Receiver, queue: str, *, path: str = "/hook") -> str:
    """A queue with one listener as anybody would make it; returns where messages are sent to."""
    client.create_queue(queue)
    client.call("PATCH", f"{QUEUES}/{queue}", {"settings": {"keep_delivered": False}})
    client.call("POST", f"{QUEUES}/{queue}/listeners", {"name": "receiver", "url": receiver.url + path})
    return f"{QUEUES}/{queue}/messages"


def _offered(
    server: Courier, receiver: Receiver, paths: list[str], *, rate: int, seconds: int, among: int | None = None
) -> Stats:
    """What arrives of a steady stream; where only `among` of the paths lead anywhere, that part of it."""
    receiver.stats()
    sent = offer(server.port, paths, rate=rate, seconds=seconds)
    expected = sent if among is None else sent * among // len(paths)
    return _arrived(receiver, expected)


def _arrived(receiver: Receiver, expected: int) -> Stats:
    deadline = time.monotonic() + PATIENCE_S
    while receiver.count() < expected:
        if time.monotonic() > deadline:
            raise SystemExit(f"{expected} messages were sent and only {receiver.count()} arrived")
        time.sleep(0.005)
    return receiver.stats()


def _pushed(client: _Client, receiver: Receiver, *, seconds: int) -> Stats:
    receiver.stats()
    sent, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        if sent - receiver.count() > BACKLOG:
            time.sleep(0.002)
            continue
        messages = [{"body": stamped()} for _ in range(BATCH)]
        client.call("POST", f"{QUEUES}/{QUEUE}/messages", {"messages": messages})
        sent += BATCH
    return _arrived(receiver, sent)
