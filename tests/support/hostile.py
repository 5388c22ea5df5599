"""Attacks on a running server, and what they cost it: memory, and the patience of other clients.

A process of its own asks `/healthz` all the while. On a machine that others use, every answer comes late, so two
figures bound how late an answer is taken to be. One is the time that the answer took, less the time for which the
server or the prober was ready to run and had no processor. The other is the processor time that the server used
meanwhile: an event loop that is stalled by an attack uses it, one that waits for a busy disk does not.
"""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

MIB = 1024 * 1024
ATTACK_BYTES = 100_000_000
"""How much an attack sends."""
CONNECTION_BYTES = 32 * MIB
TOTAL_BYTES = 256 * MIB
"""How much a server may grow under an attack on one connection, and on many."""
P99_MS = 100.0
"""How long others may wait for `/healthz`, all but the slowest hundredth of them."""

PROBE_SECONDS = 0.005
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
DRIP_SECONDS = 0.02
PATIENCE_SECONDS = 30.0
BLOCKED_SECONDS = 1.0
"""When a server has not read for so long, it has stopped reading."""
HEALTH = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


class Cost(NamedTuple):
    """What an attack did to the server and to others."""

    growth_bytes: int
    p99_ms: float
    longest_ms: float
    probes: int

    def check(self, growth_bytes: int) -> None:
        assert self.probes > 0
        assert self.growth_bytes < growth_bytes, self
        assert self.p99_ms < P99_MS, self


class Watch:
    """Watches one server process from another one."""

    def __init__(self, pid: int, url: str) -> None:
        self._pid = pid
        self._url = url
        self.cost: Cost

    def __enter__(self) -> "Watch":
        self._before = memory(self._pid, "VmRSS")
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")  # the peak begins anew
        command = [sys.executable, __file__, str(self._pid), self._url]
        self._prober = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._prober.stdout is not None
        self._prober.stdout.readline()  # it has had its first answer
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        output, _ = self._prober.communicate(timeout=PATIENCE_SECONDS)
        growth = memory(self._pid, "VmHWM") - self._before
        late = sorted(json.loads(output))
        self.cost = Cost(growth, late[len(late) * 99 // 100], late[-1], len(late))


def memory(pid: int, name: str) -> int:
    """A figure of `/proc/PID/status` in bytes, such as VmRSS."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no {name}")


# -- attackers ------------------------------------------------------------------------------------------------


class Attack(NamedTuple):
    """What each connection says first, and then without end; `reads` is whether it takes the answers."""

    opening: bytes
    filler: bytes
    reads: bool = True


class Tally:
    """What all attackers have sent together, and how many of them the server has stopped reading from."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.sent = 0
        self.blocked = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.sent += count

    def block(self) -> None:
        with self._lock:
            self.blocked += 1

    @property
    def is_over(self) -> bool:
        return self.sent >= self.total


def run(attack: Attack, dial: Callable[[], socket.socket], *, connections: int, total: int = ATTACK_BYTES) -> Tally:
    """Attack on so many connections at a time, each replaced when the server ends it.

    It is over when `total` bytes were sent, or when the server has stopped reading on every connection.
    """
    tally = Tally(total)
    threads = [threading.Thread(target=_attack, args=(attack, dial, tally)) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tally


def _attack(attack: Attack, dial: Callable[[], socket.socket], tally: Tally) -> None:
    while not tally.is_over:
        with contextlib.suppress(ConnectionError), dial() as client:
            client.settimeout(BLOCKED_SECONDS)
            with _reading(client) if attack.reads else contextlib.nullcontext():
                try:
                    client.sendall(attack.opening)
                    while not tally.is_over:
                        client.sendall(attack.filler)
                        tally.add(len(attack.filler))
                except TimeoutError:
                    tally.block()
                    return


@contextlib.contextmanager
def _reading(client: socket.socket) -> Iterator[None]:
    """Take and forget whatever the server says."""

    def read() -> None:
        with contextlib.suppress(OSError), reader:
            while reader.recv(1 << 20):
                pass

    reader = client.dup()
    reader.settimeout(PATIENCE_SECONDS)
    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        thread.join()


class Dripper:
    """One connection on which the filler is sent slowly; dialled again whenever the server ends it."""

    def __init__(self, attack: Attack, dial: Callable[[], socket.socket]) -> None:
        self._attack = attack
        self._dial = dial
        self._client: socket.socket | None = None

    def send(self) -> None:
        try:
            if self._client is None:
                self._client = self._dial()
                self._client.sendall(self._attack.opening)
                self._client.setblocking(False)
            self._client.send(self._attack.filler)
        except BlockingIOError:
            pass  # the server has stopped reading
        except OSError:
            self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def drip(attacks: Sequence[Attack], dial: Callable[[], socket.socket], *, connections: int, seconds: float) -> None:
    """Attack slowly, on so many connections for each attack."""
    ends = time.monotonic() + seconds
    drippers = [Dripper(attack, dial) for attack in attacks for _ in range(connections)]
    while time.monotonic() < ends:
        for dripper in drippers:
            dripper.send()
        time.sleep(DRIP_SECONDS)
    for dripper in drippers:
        dripper.close()


# -- the prober -----------------------------------------------------------------------------------------------


def _waited_ns(pid: int | str) -> int:
    """How long a process has been ready to run without a processor."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
    except (OSError, IndexError):
        return 0


def _used_ns(pid: int) -> int:
    """How much processor time a process has used, to the next tick of the system's clock."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12]) + 1) * TICK_NS


def _probe(pid: int, url: str) -> list[float]:
    """The milliseconds that each answer took, until standard input ends."""
    ended = threading.Event()

    def await_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    late: list[float] = []
    client = _connect(url)
    while not ended.is_set():
        begun, used = time.perf_counter_ns(), _used_ns(pid) - TICK_NS
        waited = _waited_ns(pid) + _waited_ns("self")
        client.sendall(HEALTH)
        if not client.recv(65_536):
            raise SystemExit("the server closed the prober's connection")
        took = time.perf_counter_ns() - begun
        took -= _waited_ns(pid) + _waited_ns("self") - waited
        late.append(max(0, min(took, _used_ns(pid) - used)) / 1e6)
        if len(late) == 1:
            sys.stdout.write("\n")
            sys.stdout.flush()
        time.sleep(PROBE_SECONDS)
    return late


def _connect(url: str) -> socket.socket:
    scheme, _, host = url.partition("://")
    name, _, port = host.rpartition(":")
    client = socket.create_connection((name, int(port)), timeout=PATIENCE_SECONDS)
    if scheme == "http":
        return client
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(client, server_hostname=name)


def main(arguments: Sequence[str]) -> None:
    json.dump(_probe(int(arguments[0]), arguments[1]), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
