"""Damaged Arrow streams: the server refuses each as the caller's error, or keeps what it says, and stays as it was."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fuzzing import IMPATIENT, fuzz, seconds
from tests.support.mutating import mutate
from tests.support.server import ROOT_TOKEN, ServerProcess, start_server

TENANT = "/courier/v1/tenants/default"
STAGES = f"{TENANT}/queues/orders/stages"


def stream(columns: dict[str, Any], *, batches: int = 1, compression: str | None = None) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return bytes(sink.getvalue())


BODIES = [b"hello", b"", b"\x00\xff" * 50]
WHOLE: dict[str, Any] = {
    "body": pa.array(BODIES, pa.binary()),
    "id": pa.array(["a", None, "c"]),
    "content_type": pa.array(["text/plain", None, "application/json"]),
    "attributes": pa.array(['{"a": "b"}', None, '{"n": 1.5}']),
    "group": pa.array([None, "g", None], pa.string()),
    "delay_ms": pa.array([0, None, 1_000], pa.int64()),
}
STREAMS = [
    stream({"body": WHOLE["body"]}),
    stream(WHOLE),
    stream(WHOLE, batches=3),
    stream(WHOLE, compression="lz4"),
    stream(WHOLE, compression="zstd", batches=2),
    stream({"body": pa.array(["text", None, "x" * 200])}),
    stream({"body": pa.array(BODIES, pa.large_binary())}),
    stream({"body": pa.array(["a", "b", "a"]).dictionary_encode()}),
    stream({"body": pa.array(["a", "b"], pa.string_view())}),
    stream({"body": pa.array([1, 2, 3])}),
    stream({"body": pa.array([], pa.binary())}),
]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, journal_bytes=1_000_000, archive_enabled="false", **IMPATIENT) as server:
        yield server


def test_no_damaged_arrow_stream_breaks_the_server(server: ServerProcess) -> None:
    assert server.session.post(f"{server.url}{TENANT}/queues", json={"name": "orders"}, timeout=10).ok

    def request(dice: random.Random) -> bytes:
        """A part of one of a few stages; now and then the stage is dropped or published."""
        stage, part = dice.choice("abcd"), dice.randrange(1_000)
        match dice.randrange(50):
            case 0:
                return whole("DELETE", f"{STAGES}/{stage}")
            case 1:
                order = f'{{"number": {dice.randrange(10**6)}, "stages": ["{stage}"]}}'.encode()
                return whole("POST", f"{TENANT}/queues/orders/publications/fuzz", order, "application/json")
        return whole("PUT", f"{STAGES}/{stage}/{part}", mutate(STREAMS, dice))

    assert fuzz(server, request, seconds=seconds(6)) > 0


def whole(method: str, path: str, body: bytes = b"", kind: str = "application/vnd.apache.arrow.stream") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "host: 127.0.0.1",
        f"authorization: Bearer {ROOT_TOKEN}",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body
