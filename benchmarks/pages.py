"""What open pages of the console cost: sends while one is open, and the processor time of very many."""

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from statistics import median

from benchmarks.bench import Bench, check_stored
from benchmarks.client import BODY, QUEUES, Client
from benchmarks.load import Request
from benchmarks.measure import Row, alternate
from benchmarks.processes import TOKEN, Courier

LIVE = "/courier/v1/tenants/default/live"
EVERY_TOPIC = f"{LIVE}?topics=overview,rates,events,attention&queue=orders"
"""Everything that a page can ask for."""
OVERVIEW = f"{LIVE}?topics=overview,attention&limit=1"
"""What the overview asks for."""
CONNECTIONS = 128
STREAMS = 200
PORTION = 65_536
PATIENCE_S = 30.0
SECONDS = 5
"""The factor by which a turn of many streams is longer than elsewhere: the kernel counts processor time in 10 ms."""


def open_page(bench: Bench) -> list[Row]:
    """Send one message a request while a page reads every topic, by the same without a page."""
    request = Request("POST", f"{QUEUES}/orders/messages", bench.file({"body": BODY}))
    with bench.courier() as (server, client):
        client.create_queue("orders")
        without = bench.send_meter(server, request, connections=CONNECTIONS)
        watched = bench.send_meter(server, request, connections=CONNECTIONS)

        def probe() -> float:
            with _pages(server, EVERY_TOPIC, count=1):
                return watched()

        turns = alternate(without, [probe], rounds=bench.rounds)
        check_stored(client, [without, watched])
    return [
        Row(
            name="console",
            what=f"send one, {CONNECTIONS} connections, one open page",
            value=turns.figure(),
            unit="messages/s",
            reference="no page",
            ratios=turns.ratios(),
            bar=0.98,
            cpu_ratio=without.cpu_us / watched.cpu_us,
            cpu_us=watched.cpu_us,
            reference_cpu_us=without.cpu_us,
            notes=watched.latency(),
        )
    ]


def many_pages(bench: Bench) -> list[Row]:
    """The share of a core that streams take, with one message a second so that each of them has news."""
    rounds, seconds = min(3, bench.rounds), bench.seconds * SECONDS
    with bench.courier({"console_streams": str(STREAMS)}) as (server, client):
        client.create_queue("orders")
        idle = [_share_of_core(server, client, seconds)]
        shares = []
        for _ in range(rounds):
            with _pages(server, OVERVIEW, count=STREAMS):
                shares.append(_share_of_core(server, client, seconds))
            idle.append(_share_of_core(server, client, seconds))
    figures = [max(0.0, share - median(idle)) for share in shares]
    return [
        Row(
            name=f"console-{STREAMS}",
            what=f"{STREAMS} open pages, one message a second",
            value=median(figures) * 100,
            unit="% of a core",
            reference="–",
            ratios=figures,
            bar=0.02,
            at_least=False,
            notes={"idle": median(idle)},
        )
    ]


def _share_of_core(server: Courier, client: Client, seconds: int) -> float:
    before, begun = server.cpu_s(), time.perf_counter()
    for _ in range(seconds):
        client.call("POST", f"{QUEUES}/orders/messages", {"body": BODY})
        time.sleep(1)
    return (server.cpu_s() - before) / (time.perf_counter() - begun)


@contextlib.contextmanager
def _pages(server: Courier, path: str, *, count: int) -> Iterator[None]:
    """Streams that are read while the block runs; each has got its first figures before."""
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(_stream(server, path)) for _ in range(count)]
        ended = threading.Event()
        reader = threading.Thread(target=_read, args=(streams, ended), daemon=True)
        reader.start()
        try:
            yield
        finally:
            is_cut_off = not reader.is_alive()
            ended.set()
            reader.join()
    if is_cut_off:
        raise SystemExit("the server has ended a live stream")


def _stream(server: Courier, path: str) -> socket.socket:
    """A stream that has begun; refusals end the run."""
    stream = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
    answer = b""
    while b"event: snapshot" not in answer:
        portion = stream.recv(PORTION)
        answer += portion
        if not portion or b" 200 " not in answer:
            raise SystemExit(f"a live stream was refused: {answer[:500].decode()}")
    return stream


def _read(streams: list[socket.socket], ended: threading.Event) -> None:
    """Take everything that comes, as fast as it comes, until told to stop or a stream ends."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        while not ended.is_set():
            for key, _ in selector.select(timeout=0.1):
                if isinstance(key.fileobj, socket.socket) and not key.fileobj.recv(PORTION):
                    return
