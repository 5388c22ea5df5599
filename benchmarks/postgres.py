"""Courier on PostgreSQL over HTTP, by pgmq in direct SQL on the same server: every message on disk before its reply."""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from benchmarks.bench import Bench, Meter, check_stored
from benchmarks.client import BODY, Client
from benchmarks.load import Chain, Request, poll, repeat
from benchmarks.measure import Probe, Row, alternate
from benchmarks.processes import Courier
from benchmarks.sending import CLIENTS, QUEUE

FILL = 50_000
FEW, MANY = 16, 256


@contextlib.contextmanager
def on_postgres(bench: Bench) -> Iterator[tuple[Courier, Client]]:
    """A Courier on an empty store, with the one queue that everybody uses."""
    bench.pgmq.start_over()
    with bench.courier({"store": bench.pgmq.new_store()}) as (server, client):
        client.create_queue("orders")
        yield server, client


def send_one(bench: Bench, *, connections: int) -> list[Row]:
    """One message a request, one message a statement."""
    request = Request("POST", f"{QUEUE}/messages", bench.file({"body": BODY}))
    with on_postgres(bench) as (server, client):
        meter = bench.send_meter(server, request, connections=connections)
        what = f"PostgreSQL: send one, {connections} connections"
        row = _against_pgmq(
            bench,
            f"pg-send-{connections}",
            what,
            meter,
            meter,
            lambda: bench.pgmq.rate("send", clients=connections, seconds=bench.seconds),
            bar=1.0,
        )
        check_stored(client, [meter])
    return [row]


def send_batch(bench: Bench) -> list[Row]:
    """A hundred messages a request, a hundred a statement."""
    batch = bench.file({"messages": [{"body": BODY}] * 100})
    request = Request("POST", f"{QUEUE}/messages", batch, messages=100)
    with on_postgres(bench) as (server, client):
        meter = bench.send_meter(server, request, connections=32)
        reference = lambda: bench.pgmq.rate("batch", clients=32, seconds=bench.seconds) * 100  # noqa: E731
        what = "PostgreSQL: send 100 at a time"
        row = _against_pgmq(bench, "pg-batch-100", what, meter, meter, reference, bar=1.0)
        check_stored(client, [meter])
    return [row]


def drain(bench: Bench) -> list[Row]:
    """Receive ten and ack ten, from a queue that was filled before."""
    with on_postgres(bench) as (server, client):
        meter = bench.chain_meter(server, Chain("native", QUEUE, 10), clients=CLIENTS)

        def subject() -> float:
            client.fill("orders", max(0, FILL - client.waiting("orders")))
            return meter()

        def reference() -> float:
            bench.pgmq.fill(FILL)
            return bench.pgmq.rate("receive", clients=CLIENTS, seconds=bench.seconds, limit=10) * 10

        what = "PostgreSQL: receive 10, ack 10"
        return [_against_pgmq(bench, "pg-drain-10", what, meter, subject, reference, bar=1.5)]


def _against_pgmq(
    bench: Bench, name: str, what: str, meter: Meter, subject: Probe, reference: Probe, *, bar: float
) -> Row:
    turns = alternate(reference, [subject], rounds=bench.rounds)
    return Row(
        name=name,
        what=what,
        value=turns.figure(),
        unit="messages/s",
        reference="pgmq",
        ratios=turns.ratios(),
        bar=bar,
        notes={**meter.latency(), "cpu_us": meter.cpu_us, "pgmq_rate": median(turns.reference)},
    )


def pollers(bench: Bench) -> list[Row]:
    """Messages that get through, sent one by one, while many wait for one each, by the same while few wait."""
    request = Request("POST", f"{QUEUE}/messages", bench.file({"body": BODY}))
    with on_postgres(bench) as (server, client), ThreadPoolExecutor() as pool:

        def rate(waiting: int) -> float:
            client.call("POST", f"{QUEUE}/purge")
            sending = pool.submit(repeat, server, request, connections=FEW, seconds=bench.seconds)
            got = poll(server, QUEUE, connections=waiting, seconds=bench.seconds)
            sending.result()
            return got.rate

        turns = alternate(lambda: rate(FEW), [lambda: rate(MANY)], rounds=bench.rounds)
        return [
            Row(
                name="pg-pollers",
                what=f"PostgreSQL: {MANY} waiting for one message each",
                value=turns.figure(),
                unit="messages/s",
                reference=f"{FEW} waiting",
                ratios=turns.ratios(),
                bar=0.9,
                notes={"pgmq_ratio": _pgmq_pollers(bench)},
            )
        ]


def _pgmq_pollers(bench: Bench) -> float:
    """The same question to pgmq, whose readers find a full queue."""
    bench.pgmq.fill(FILL)
    few, many = (bench.pgmq.rate("receive", clients=clients, seconds=bench.seconds, limit=1) for clients in (FEW, MANY))
    return many / few
