"""The load generator: wrk in its own process, told what to do by the scripts in `lua/`."""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec

from benchmarks.processes import TOKEN, Server

LUA = Path(__file__).parent / "lua"


class Load(msgspec.Struct, frozen=True):
    """What wrk saw: `count` requests, or settled messages in a chain."""

    count: int
    failed: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds if self.seconds > 0 else 0.0


class Request(msgspec.Struct, frozen=True):
    """One request that is repeated; `{n}` in the path becomes another number each time."""

    method: str
    path: str
    body: Path
    messages: int = 1
    """How many messages one of these carries."""


class Chain(msgspec.Struct, frozen=True):
    """(Send,) receive and ack, `limit` messages at a time, in one dialect's words."""

    dialect: str
    path: str
    limit: int
    batch: Path | None = None


def repeat(server: Server, request: Request, *, connections: int, seconds: int) -> Load:
    """Keep `connections` busy with the same request."""
    arguments = [request.method, request.path, TOKEN, str(request.body)]
    return _wrk(server, "repeat.lua", arguments, threads=1, connections=connections, seconds=seconds)


def chain(server: Server, work: Chain, *, clients: int, seconds: int) -> Load:
    """Let `clients` go through the steps, each at its own pace; the clock stops with the last ack."""
    dialect = LUA / f"{work.dialect}.lua"
    arguments = [str(dialect), work.path, TOKEN, str(work.limit), str(work.batch or "-")]
    return _wrk(server, "chain.lua", arguments, threads=clients, connections=clients, seconds=seconds)


def drain(server: Server, path: str, *, limit: int, connections: int, seconds: int) -> Load:
    """Let `connections` receive and ack `limit` messages at a time; the clock stops with the last ack."""
    arguments = [path, TOKEN, str(limit)]
    return _wrk(server, "drain.lua", arguments, threads=1, connections=connections, seconds=seconds)


def poll(server: Server, path: str, *, connections: int, seconds: int) -> Load:
    """Let `connections` wait for a message each, ack it and wait again."""
    return _wrk(server, "poll.lua", [path, TOKEN], threads=1, connections=connections, seconds=seconds)


def _wrk(server: Server, script: str, arguments: list[str], *, threads: int, connections: int, seconds: int) -> Load:
    command = ["wrk", "-t", str(threads), "-c", str(connections), "-d", f"{seconds}s", "--timeout", "30s"]
    command += ["-s", str(LUA / script), server.url, "--", *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=False)
    last = output.stdout.rstrip().rpartition("\n")[2]
    if output.returncode or not last.startswith("{"):
        raise SystemExit(f"wrk failed: {output.stdout}{output.stderr}\n{server.last_words()}")
    load = msgspec.json.decode(last, type=Load)
    if load.failed:
        raise SystemExit(f"{load.failed} requests of {' '.join(arguments[:2])} failed\n{server.last_words()}")
    return load


def require_wrk() -> None:
    """Install wrk where we may, else say how."""
    if shutil.which("wrk"):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "install", "--yes", "--quiet", "wrk"], check=False)
    if not shutil.which("wrk"):
        raise SystemExit("the benchmarks need wrk; on Debian: apt install wrk")
