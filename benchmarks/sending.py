"""The native dialect's hot paths over HTTP, every message on disk before its reply."""

from benchmarks.bench import Bench, Tally
from benchmarks.client import BODY, QUEUES
from benchmarks.load import Chain, Request, chain
from benchmarks.measure import Probe, Row, alternate

QUEUE = f"{QUEUES}/orders"
CYCLE_CLIENTS = 16
DRAIN_FILL = 50_000


def send_one(bench: Bench, *, connections: int, bar: float) -> list[Row]:
    """One message a request."""
    request = Request("POST", f"{QUEUE}/messages", bench.file({"body": BODY}))
    what = f"send one, {connections} connections"
    return [_send(bench, f"send-{connections}", what, request, connections=connections, bar=bar)]


def send_batch(bench: Bench) -> list[Row]:
    """A hundred messages a request."""
    batch = bench.file({"messages": [{"body": BODY}] * 100})
    request = Request("POST", f"{QUEUE}/messages", batch, messages=100)
    return [_send(bench, "batch-100", "send 100 at a time", request, connections=32, bar=2.0)]


def _send(bench: Bench, name: str, what: str, request: Request, *, connections: int, bar: float) -> Row:
    tally = Tally()
    with bench.courier() as (server, client):
        client.create_queue("orders")
        probe = bench.send_probe(server, request, connections=connections, tally=tally)
        turns = alternate(bench.bare_probe(connections), [probe], rounds=bench.rounds)
        tally.check(lambda: client.waiting("orders"))
    return Row(
        name=name,
        what=what,
        value=turns.figure(),
        unit="messages/s",
        reference="bare",
        ratios=turns.ratios(),
        bar=bar,
        notes=tally.latency(),
    )


def cycle(bench: Bench) -> list[Row]:
    """Send a hundred, receive a hundred, ack a hundred; a message counts when it is acked."""
    batch = bench.file({"messages": [{"body": BODY}] * 100})
    with bench.courier() as (server, client):
        client.create_queue("orders")
        work = Chain("native", QUEUE, 100, batch)

        def probe() -> float:
            return chain(server, work, clients=CYCLE_CLIENTS, seconds=bench.seconds).rate

        return [_chain_row(bench, "cycle-100", "send 100, receive 100, ack 100", probe, bar=0.7)]


def drain(bench: Bench) -> list[Row]:
    """Receive a hundred and ack a hundred from a queue that was filled before."""
    with bench.courier() as (server, client):
        client.create_queue("orders")
        work = Chain("native", QUEUE, 100)

        def probe() -> float:
            client.fill("orders", DRAIN_FILL)
            return chain(server, work, clients=CYCLE_CLIENTS, seconds=bench.seconds).rate

        return [_chain_row(bench, "drain-100", "receive 100, ack 100", probe, bar=None)]


def _chain_row(bench: Bench, name: str, what: str, probe: Probe, *, bar: float | None) -> Row:
    turns = alternate(bench.bare_probe(CYCLE_CLIENTS), [probe], rounds=bench.rounds)
    return Row(
        name=name,
        what=what,
        value=turns.figure(),
        unit="messages/s",
        reference="bare",
        ratios=turns.ratios(),
        bar=bar,
    )
