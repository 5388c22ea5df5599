"""Three nodes on one PostgreSQL at a fixed load each: do they wait for each other's locks, and do sends take longer."""

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median, quantiles
from typing import cast

import msgspec
import psycopg
import uvloop

from benchmarks.bench import Bench
from benchmarks.client import BODY, Client
from benchmarks.measure import Row, alternate
from benchmarks.processes import TOKEN, Courier
from benchmarks.sending import QUEUE

NODES = 3
RATE = 100
"""Messages a second that each node takes and gives out again.

With 200, three nodes, the database and the client fill two thirds of a machine with two cores. Then p95 is the time
spent waiting for a core: an exclusive lock around each commit changes the ratio by 5 %. With 100 it changes from 1.2 to
1.3.
"""
TURN_LENGTH = 4
"""How many times as long as in other rows a turn is: the figure is that of the slowest twentieth."""
CONNECTIONS = 16
TICK_S = 0.002
SAMPLE_S = 0.02
HEAD_END = b"\r\n\r\n"
RECEIVE = b'{"limit":10,"wait_ms":200}'
WAITING = """
SELECT wait_event FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Turn(msgspec.Struct, frozen=True):
    """What one turn has seen: how long each send took, and which locks the samples saw somebody wait for."""

    send_ms: list[float]
    sample_count: int
    locked: Counter[str]
    """How many samples saw somebody wait for a lock of that kind; `any` counts each sample once."""

    @property
    def p95_ms(self) -> float:
        return quantiles(self.send_ms, n=20)[-1]

    @property
    def locked_share(self) -> float:
        return self.locked["any"] / max(1, self.sample_count)


def nodes(bench: Bench) -> list[Row]:
    """p95 of a send with all nodes at their load, by that of one node and by that of nodes with a store each.

    The nodes share the machine with the database and the client, so a send takes longer with three of them even when
    they share nothing else. Nodes with a store each show how much longer.
    """
    seen: dict[str, list[Turn]] = {"one": [], "together": [], "apart": []}
    with _started(bench) as (together, apart):

        def p95(name: str, servers: Sequence[Courier]) -> float:
            turn = uvloop.run(_turn([s.port for s in servers], bench.pgmq.cluster.url(), TURN_LENGTH * bench.seconds))
            seen[name].append(turn)
            return turn.p95_ms

        measured = alternate(
            lambda: p95("one", together[:1]),
            [lambda: p95("together", together), lambda: p95("apart", apart)],
            rounds=bench.rounds,
        )
    shared = seen["together"][1:]  # the first turn is thrown away
    locked = sum((turn.locked for turn in shared), Counter[str]())
    row = partial(Row, at_least=False)
    return [
        row(
            name="pg-nodes",
            what=f"PostgreSQL: p95 of a send, {NODES} nodes at {RATE} messages/s each",
            value=measured.figure(),
            unit="ms",
            reference="one node at that load",
            ratios=measured.ratios(),
            bar=1.3,
            notes={"one_node_ms": median(measured.reference), "apart_by_one": median(measured.ratios(1))},
        ),
        row(
            name="pg-nodes-apart",
            what=f"the same by {NODES} nodes with a store each",
            value=measured.figure(),
            unit="ms",
            reference="a store each",
            ratios=[a / b for a, b in zip(*measured.others, strict=True)],
            bar=1.1,
            notes={"apart_ms": measured.figure(1)},
        ),
        row(
            name="pg-nodes-locks",
            what="the same: samples in which a session waits for a lock",
            value=100 * median(turn.locked_share for turn in shared),
            unit="%",
            reference="all samples",
            ratios=[turn.locked_share for turn in shared],
            bar=0.02,
            notes={"samples": float(sum(turn.sample_count for turn in shared)), **_by_kind(locked)},
        ),
    ]


def _by_kind(locked: Counter[str]) -> dict[str, float]:
    return {f"locked_{kind}": float(count) for kind, count in sorted(locked.items())}


@contextlib.contextmanager
def _started(bench: Bench) -> Iterator[tuple[list[Courier], list[Courier]]]:
    """Nodes that share an empty store, and nodes with an empty store each, on one PostgreSQL; each with its queue."""
    bench.pgmq.start_over()
    shared = bench.pgmq.new_store()
    with contextlib.ExitStack() as stack:

        def start(store: str) -> Courier:
            return stack.enter_context(Courier(bench.new_data(), {"store": store}))

        together = [start(shared) for _ in range(NODES)]
        apart = [start(bench.pgmq.new_store()) for _ in range(NODES)]
        for server in (together[0], *apart):
            Client(server.port).create_queue("orders")
        yield together, apart


# -- one turn -----------------------------------------------------------------------------------------------------


async def _turn(ports: Sequence[int], database: str, seconds: int) -> Turn:
    """Send to and receive from each of these nodes at the fixed rate, and look at the database meanwhile."""
    async with asyncio.TaskGroup() as group:
        sampling = group.create_task(_sample(database))
        receivers = [group.create_task(_receive(port)) for port in ports]
        senders = [group.create_task(_send(port, node, seconds)) for node, port in enumerate(ports)]
        await asyncio.wait(senders)
        for task in (sampling, *receivers):
            task.cancel()
    count, locked = sampling.result()
    return Turn([ms for sender in senders for ms in sender.result()], count, locked)


async def _sample(database: str) -> tuple[int, Counter[str]]:
    """Until cancelled: which locks sessions wait for, every SAMPLE_S."""
    count, locked = 0, Counter[str]()
    with contextlib.suppress(asyncio.CancelledError):
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            while True:
                rows = await (await connection.execute(WAITING)).fetchall()
                count += 1
                locked.update({str(kind) for (kind,) in rows} | ({"any"} if rows else set()))
                await asyncio.sleep(SAMPLE_S)
    return count, locked


class _Sending(asyncio.Protocol):
    """One connection with at most one request; notes how long each took from the instant at which it was due."""

    def __init__(self, free: deque["_Sending"], send_ms: list[float]) -> None:
        self._free = free
        self._send_ms = send_ms
        self._due_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._free.append(self)

    def send(self, request: bytes, due_at: float) -> None:
        self._due_at = due_at
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 201"):
            raise SystemExit(f"a message was refused: {data[:300]!r}")
        self._send_ms.append((time.monotonic() - self._due_at) * 1_000)
        self._free.append(self)


def _arrivals(node: int, seconds: int) -> Iterator[float]:
    """When sends to a node are due, in seconds from the start: those of clients that know nothing of each other.

    At even distances the senders of all nodes, which start together, would send in the same millisecond for the whole
    turn: all nodes would always want the same two cores at once, and one node would never see two sends together.
    """
    dice, at = random.Random(node), 0.0
    while (at := at + dice.expovariate(RATE)) < seconds:
        yield at


async def _send(port: int, node: int, seconds: int) -> list[float]:
    """Send at the rate, whatever becomes of the messages; the milliseconds that each send took since it was due."""
    loop = asyncio.get_running_loop()
    free: deque[_Sending] = deque()
    send_ms: list[float] = []
    made = [
        await loop.create_connection(lambda: _Sending(free, send_ms), "127.0.0.1", port) for _ in range(CONNECTIONS)
    ]
    request = _request("messages", msgspec.json.encode({"body": BODY}))
    started = time.monotonic()
    for at in _arrivals(node, seconds):
        while time.monotonic() < started + at or not free:
            await asyncio.sleep(TICK_S)
        free.popleft().send(request, started + at)
    while len(free) < CONNECTIONS:
        await asyncio.sleep(TICK_S)
    for transport, _ in made:
        transport.close()
    return send_ms


async def _receive(port: int) -> None:
    """Until cancelled: receive ten and ack them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        while True:
            leases = msgspec.json.decode(await _call(reader, writer, _request("receive", RECEIVE)))["leases"]
            if leases:
                receipts = msgspec.json.encode({"receipts": [lease["receipt"] for lease in leases]})
                await _call(reader, writer, _request("ack", receipts))
    finally:
        writer.close()


async def _call(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    head = (await reader.readuntil(HEAD_END)).lower()
    if not head.startswith(b"http/1.1 200"):
        raise SystemExit(f"a node answered {head[:300]!r}")
    length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
    return await reader.readexactly(int(length))


def _request(what: str, body: bytes) -> bytes:
    return (
        f"POST {QUEUE}/{what} HTTP/1.1\r\nHost: courier\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
