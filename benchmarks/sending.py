"""The native dialect's hot paths over HTTP, every message on disk before its reply."""

from benchmarks.bench import Bench, Meter, check_stored
from benchmarks.client import BODY, QUEUES
from benchmarks.load import Chain, Request
from benchmarks.measure import Probe, Row, alternate

QUEUE = f"{QUEUES}/orders"
CLIENTS = 16
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
    return [_send(bench, "batch-100", "send 100 at a time", request, connections=32, bar=4.0)]


def _send(bench: Bench, name: str, what: str, request: Request, *, connections: int, bar: float) -> Row:
    with bench.courier() as (server, client):
        client.create_queue("orders")
        meter = bench.send_meter(server, request, connections=connections)
        row = _against_bare(bench, name, what, meter, meter, connections=connections, bar=bar)
        check_stored(client, [meter])
    return row


def cycle(bench: Bench) -> list[Row]:
    """Send a hundred, receive a hundred, ack a hundred; a message counts when it is acked."""
    batch = bench.file({"messages": [{"body": BODY}] * 100})
    with bench.courier() as (server, client):
        client.create_queue("orders")
        meter = bench.chain_meter(server, Chain("native", QUEUE, 100, batch), clients=CLIENTS)
        what = "send 100, receive 100, ack 100"
        return [_against_bare(bench, "cycle-100", what, meter, meter, connections=CLIENTS, bar=1.4)]


def drain(bench: Bench) -> list[Row]:
    """Receive a hundred and ack a hundred from a queue that was filled before."""
    with bench.courier() as (server, client):
        client.create_queue("orders")
        meter = bench.chain_meter(server, Chain("native", QUEUE, 100), clients=CLIENTS)

        def probe() -> float:
            client.fill("orders", DRAIN_FILL)
            return meter()

        return [_against_bare(bench, "drain-100", "receive 100, ack 100", meter, probe, connections=CLIENTS, bar=2.4)]


def _against_bare(
    bench: Bench, name: str, what: str, meter: Meter, probe: Probe, *, connections: int, bar: float | None = None
) -> Row:
    bare = bench.bare_meter(connections)
    turns = alternate(bare, [probe], rounds=bench.rounds)
    return Row(
        name=name,
        what=what,
        value=turns.figure(),
        unit="messages/s",
        reference="bare",
        ratios=turns.ratios(),
        bar=bar,
        cpu_ratio=bare.cpu_us / meter.cpu_us,
        cpu_us=meter.cpu_us,
        reference_cpu_us=bare.cpu_us,
        notes=meter.latency(),
    )
