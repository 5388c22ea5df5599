"""Courier on PostgreSQL over HTTP, by pgmq in direct SQL on the same server: every message on disk before its reply."""

import contextlib
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from benchmarks.bench import Bench, Meter, check_stored
from benchmarks.client import BODY, Client
from benchmarks.load import Request, poll, repeat
from benchmarks.measure import Row, alternate
from benchmarks.processes import Courier, Server
from benchmarks.sending import QUEUE

FILL = 50_000
FEW, MANY = 16, 256


@contextlib.contextmanager
def on_postgres(bench: Bench) -> Iterator[tuple[Courier, Client]]:
    """A Courier on an empty store, with the one queue that everybody uses."""
    bench.pgmq.start_over()
    with bench.courier({"store": bench.pgmq.new_store()}) as (server, client):
        client.create_queue("orders")
        yield server, client


def send_one(bench: Bench, *, connections: int, bar: float) -> list[Row]:
    """One message a request, one message a statement."""
    request = Request("POST", f"{QUEUE}/messages", bench.file({"body": BODY}))
    name, what = f"pg-send-{connections}", f"PostgreSQL: send one, {connections} connections"
    return [_send(bench, name, what, request, "send", connections=connections, bar=bar)]


def send_batch(bench: Bench) -> list[Row]:
    """A hundred messages a request, a hundred a statement."""
    batch = bench.file({"messages": [{"body": BODY}] * 100})
    request = Request("POST", f"{QUEUE}/messages", batch, messages=100)
    return [_send(bench, "pg-batch-100", "PostgreSQL: send 100 at a time", request, "batch", connections=32)]


def _send(
    bench: Bench, name: str, what: str, request: Request, script: str, *, connections: int, bar: float = 1.0
) -> Row:
    with on_postgres(bench) as (server, client):
        meter = bench.send_meter(server, request, connections=connections)
        row = _against_pgmq(
            bench, name, what, server, meter, script, clients=connections, each=request.messages, bar=bar
        )
        check_stored(client, [meter])
    return row


def drain(bench: Bench, *, connections: int, bar: float) -> list[Row]:
    """Receive ten and ack ten, from a queue that was filled before."""
    with on_postgres(bench) as (server, client):
        meter = bench.drain_meter(server, QUEUE, limit=10, connections=connections)

        def fill() -> None:
            client.fill("orders", max(0, FILL - client.waiting("orders")))

        name, what = f"pg-drain-{connections}", f"PostgreSQL: receive 10, ack 10, {connections} connections"
        return [
            _against_pgmq(bench, name, what, server, meter, "receive", clients=connections, each=10, fill=fill, bar=bar)
        ]


class Cost:
    """Processor time of everybody who takes part, for each message: it says more than a rate on a busy machine."""

    def __init__(self, bench: Bench, server: Server | None = None) -> None:
        self._bench = bench
        self._server = server
        self._seconds = 0.0
        self._messages = 0.0

    @contextlib.contextmanager
    def of(self) -> Iterator[Callable[[float], None]]:
        """Tell what is yielded how many messages it were."""
        before = self._spent()
        yield self._count
        self._seconds += self._spent() - before

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What happens now belongs to every turn but not to its messages: it is taken off once."""
        before = self._spent()
        yield
        self._seconds -= self._spent() - before

    def _count(self, messages: float) -> None:
        self._messages += messages

    def _spent(self) -> float:
        clients = resource.getrusage(resource.RUSAGE_CHILDREN)
        server = self._server.cpu_s() if self._server else 0.0
        return self._bench.pgmq.cpu_s() + server + clients.ru_utime + clients.ru_stime

    @property
    def us(self) -> float:
        return self._seconds * 1e6 / max(1.0, self._messages)


def _against_pgmq(
    bench: Bench,
    name: str,
    what: str,
    server: Server,
    meter: Meter,
    script: str,
    *,
    clients: int,
    each: int = 1,
    fill: Callable[[], None] = lambda: None,
    bar: float,
) -> Row:
    """Courier's turns and pgmq's; both begin with what is to be there, which is not measured."""
    ours, theirs = Cost(bench, server), Cost(bench)

    def subject() -> float:
        fill()
        with ours.of() as count:
            before = meter.messages
            rate = meter()
            count(meter.messages - before)
        return rate

    def reference() -> float:
        bench.pgmq.fill(FILL if script == "receive" else 0)
        with theirs.aside():  # a node connects once and for all; pgbench does so in every turn
            bench.pgmq.begin(script, clients=clients, limit=each)
        with theirs.of() as count:
            done = bench.pgmq.run(script, clients=clients, seconds=bench.seconds, limit=each)
            count(done.transactions * each)
        return done.rate * each

    turns = alternate(reference, [subject], rounds=bench.rounds)
    return Row(
        name=name,
        what=what,
        value=turns.figure(),
        unit="messages/s",
        reference="pgmq",
        ratios=turns.ratios(),
        bar=bar,
        cpu_ratio=theirs.us / ours.us,
        cpu_us=ours.us,
        reference_cpu_us=theirs.us,
        notes={
            **meter.latency(),
            "node_cpu_us": meter.cpu_us,
            "pgmq_rate": median(turns.reference),
        },
    )


def pollers(bench: Bench) -> list[Row]:
    """Messages that get through, sent one by one, while many wait for one each, by the same while few wait."""
    request = Request("POST", f"{QUEUE}/messages", bench.file({"body": BODY}))
    with on_postgres(bench) as (server, client), ThreadPoolExecutor() as pool:
        costs = {waiting: Cost(bench, server) for waiting in (FEW, MANY)}

        def rate(waiting: int) -> float:
            client.call("POST", f"{QUEUE}/purge")
            with costs[waiting].of() as count:
                sending = pool.submit(repeat, server, request, connections=FEW, seconds=bench.seconds)
                got = poll(server, QUEUE, connections=waiting, seconds=bench.seconds)
                sending.result()
                count(got.count)
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
                cpu_us=costs[MANY].us,
                reference_cpu_us=costs[FEW].us,
                notes={"pgmq_ratio": _pgmq_pollers(bench)},
            )
        ]


def _pgmq_pollers(bench: Bench) -> float:
    """The same question to pgmq, whose readers find a full queue."""
    bench.pgmq.fill(FILL)
    few, many = (bench.pgmq.run("receive", clients=clients, seconds=bench.seconds).rate for clients in (FEW, MANY))
    return many / few
