"""Jobs, claims, stages and publications over the native dialect."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.dialects.native.wire.unpacking import unpacked_size
from couriermq.journal.schema import CLAIMED_COLUMNS, arrow_schema
from tests.support.inprocess import Response
from tests.support.native import ALL, Queue, Tenant, native_tenant

ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


@pytest.fixture
async def orders(root: Tenant) -> AsyncIterator[Queue]:
    yield await root.queue("orders")  # noqa: PT022


def table(response: Response) -> pa.Table:
    assert response.headers["content-type"] == ARROW, response
    return pa.ipc.open_stream(response.body).read_all()


def stream(compression: str | None = None, **columns: pa.Array) -> bytes:
    batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


async def stage(queue: Queue, name: str, part: int, body: bytes, **options: Any) -> Response:
    return await queue.call("PUT", f"/stages/{name}/{part}", body=body, headers={"content-type": ARROW}, **options)


# -- claims ---------------------------------------------------------------------------------------------------


async def test_a_job_claims_reads_and_acks(orders: Queue) -> None:
    for n in range(5):
        await orders.send(str(n), attributes={"n": n})
    job = await orders.ask("POST", "/jobs/spark/open")
    assert (job["name"], job["epoch"], job["done"], job["claims"]) == ("spark", 1, 0, [])
    made = await orders.call("PUT", "/jobs/spark/claims/1", {"epoch": 1, "limit": 3})
    assert (made.status, made.json()["count"], made.json()["byte_count"]) == (201, 3, 3)
    again = await orders.call("PUT", "/jobs/spark/claims/1", {"epoch": 1, "limit": 5})
    assert (again.status, again.json()) == (200, made.json())
    held = (await orders.ask("GET", "/jobs/spark/claims/1?epoch=1&from=1"))["held"]
    assert [(each["position"], each["message"]["body"], each["message"]["state"]) for each in held] == [
        (1, "1", "leased"),
        (2, "2", "leased"),
    ]
    (listed,) = (await orders.ask("GET", "/jobs"))["jobs"]
    assert [claim["number"] for claim in listed["claims"]] == [1]
    assert await orders.ask("POST", "/jobs/spark/ack", {"epoch": 1, "upto": 1}) == {"count": 3}
    assert await orders.bodies() == ["3", "4"]
    assert (await orders.refused("GET", "/jobs/spark/claims/1?epoch=1"))["status"] == 410


async def test_a_claim_is_read_as_arrow(orders: Queue) -> None:
    await orders.send("one", attributes={"n": 1}, group="g")
    await orders.send("two")
    await orders.ask("POST", "/jobs/spark/open")
    await orders.ask("PUT", "/jobs/spark/claims/1", {"epoch": 1, "limit": 10})
    found = table(await orders.call("GET", "/jobs/spark/claims/1?epoch=1&format=arrow"))
    assert found.schema == arrow_schema(CLAIMED_COLUMNS)
    first, second = found.to_pylist()
    assert (first["position"], first["body"], first["attributes"], first["group"]) == (0, b"one", '{"n":1}', "g")
    assert (second["position"], second["attributes"], second["queue"], second["attempts"]) == (1, None, "orders", 1)
    chosen = "/jobs/spark/claims/1?epoch=1&to=1&columns=body"
    some = table(await orders.call("GET", chosen, headers={"accept": ARROW}))
    assert some.to_pydict() == {"position": [0], "body": [b"one"]}
    empty = table(await orders.call("GET", "/jobs/spark/claims/1?epoch=1&format=arrow&from=2"))
    assert empty.num_rows == 0


async def test_a_large_claim_is_read_in_one_stream(orders: Queue) -> None:
    for first in (0, 1_000, 2_000):
        await orders.ask("POST", "/messages", {"messages": [{"body": str(n)} for n in range(first, first + 1_000)]})
    await orders.ask("POST", "/jobs/spark/open")
    await orders.ask("PUT", "/jobs/spark/claims/1", {"epoch": 1, "limit": 10_000})
    found = table(await orders.call("GET", "/jobs/spark/claims/1?epoch=1&format=arrow&from=500&columns=body"))
    assert found.to_pydict() == {
        "position": list(range(500, 3_000)),
        "body": [str(n).encode() for n in range(500, 3_000)],
    }


async def test_an_old_epoch_is_fenced_off(orders: Queue) -> None:
    await orders.send()
    await orders.ask("POST", "/jobs/spark/open")
    await orders.ask("POST", "/jobs/spark/open")
    for method, path, body in (
        ("PUT", "/jobs/spark/claims/1", {"epoch": 1}),
        ("POST", "/jobs/spark/ack", {"epoch": 1, "upto": 1}),
    ):
        problem = await orders.refused(method, path, body)
        assert (problem["status"], problem["type"]) == (409, "urn:courier:problem:fenced")
    assert (await orders.refused("GET", "/jobs/spark/claims/1?epoch=1"))["status"] == 409


async def test_an_operator_frees_what_a_dead_job_holds(orders: Queue) -> None:
    await orders.send()
    await orders.ask("POST", "/jobs/spark/open")
    await orders.ask("PUT", "/jobs/spark/claims/1", {"epoch": 1})
    assert await orders.ask("POST", "/jobs/spark/free") == {"count": 1}
    assert (await orders.receive_one())["message"]["attempts"] == 2
    assert (await orders.refused("POST", "/jobs/nobody/free"))["status"] == 404


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "99999999999999999999", "9223372036854775808"])
async def test_a_number_is_a_number(orders: Queue, number: str) -> None:
    problem = await orders.refused("PUT", f"/jobs/spark/claims/{number}", {"epoch": 1})
    assert (problem["status"], problem["field"]) == (400, "number")


async def test_claims_need_the_right_to_receive(root: Tenant, orders: Queue) -> None:
    sender = orders.of(await root.with_scopes(("send", ALL)))
    receiver = orders.of(await root.with_scopes(("receive", ALL)))
    for method, path, body in (
        ("POST", "/jobs/spark/open", None),
        ("PUT", "/jobs/spark/claims/1", {"epoch": 1}),
        ("GET", "/jobs/spark/claims/1?epoch=1", None),
        ("POST", "/jobs/spark/ack", {"epoch": 1, "upto": 1}),
        ("POST", "/jobs/spark/free", None),
        ("GET", "/jobs", None),
    ):
        assert (await sender.refused(method, path, body))["status"] == 403
    assert (await receiver.ask("POST", "/jobs/spark/open"))["epoch"] == 1


# -- stages ---------------------------------------------------------------------------------------------------


async def test_messages_are_staged_as_arrow_and_published_once(orders: Queue) -> None:
    body = stream(
        body=pa.array([b"1", b"\xff"], pa.binary()),
        content_type=pa.array(["text/x", None], pa.string()),
        attributes=pa.array(['{"n": 1, "ok": true}', None], pa.string()),
        delay_ms=pa.array([None, 5], pa.int64()),
        id=pa.array(["mine", None], pa.string()),
        group=pa.array([None, "g"], pa.string()),
    )
    assert (await stage(orders, "s1", 0, body)).status == 204
    assert await orders.bodies() == []
    published = await orders.ask("PUT", "/publications/query-1", {"number": 3, "stages": ["s1"]})
    assert (published["series"], published["number"], published["count"]) == ("query-1", 3, 2)
    assert await orders.ask("PUT", "/publications/query-1", {"number": 3, "stages": ["s2"]}) == published
    assert await orders.ask("GET", "/publications/query-1") == published
    first, second = (await orders.ask("GET", "/messages"))["messages"]
    assert (first["id"], first["content_type"], first["attributes"]) == ("mine", "text/x", {"n": 1, "ok": True})
    assert (second["body_base64"], second["content_type"], second["group"]) == ("/w==", "application/octet-stream", "g")
    assert second["state"] == "delayed"


async def test_a_stage_without_all_its_parts_is_not_published(orders: Queue) -> None:
    await orders.ask("PUT", "/stages/s1/1", {"messages": [{"body": "b"}]})
    order = {"number": 1, "stages": ["s1"], "parts": {"s1": 2}}
    problem = await orders.refused("PUT", "/publications/q", order)
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:stage-not-found")
    assert "stage 's1' has 1 part and not 2" in problem["detail"]
    assert (await orders.refused("PUT", "/publications/q", order | {"parts": {"s2": 1}}))["field"] == "parts"
    await orders.ask("PUT", "/stages/s1/0", {"messages": [{"body": "a"}]})
    await orders.ask("PUT", "/publications/q", order)
    assert await orders.bodies() == ["a", "b"]


async def test_messages_are_staged_as_json_too(orders: Queue) -> None:
    await orders.ask("PUT", "/stages/s1/0", {"messages": [{"body": "a"}, {"json": [1]}]})
    await orders.ask("PUT", "/publications/q", {"number": 0, "stages": ["s1"]})
    assert await orders.bodies() == ["a", "[1]"]


async def test_text_is_staged_as_text(orders: Queue) -> None:
    await stage(orders, "s1", 0, stream(body=pa.array(["é"], pa.string())))
    await orders.ask("PUT", "/publications/q", {"number": 0, "stages": ["s1"]})
    (message,) = (await orders.ask("GET", "/messages"))["messages"]
    assert (message["body"], message["content_type"]) == ("é", "text/plain; charset=utf-8")


async def test_a_dropped_stage_cannot_be_published(orders: Queue) -> None:
    await orders.ask("PUT", "/stages/s1/0", {"messages": [{"body": "a"}]})
    assert (await orders.call("DELETE", "/stages/s1")).status == 204
    assert (await orders.call("DELETE", "/stages/s1")).status == 204
    problem = await orders.refused("PUT", "/publications/q", {"number": 0, "stages": ["s1"]})
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:stage-not-found")
    assert (await orders.refused("GET", "/publications/q"))["status"] == 404


async def test_an_exchange_takes_stages_too(root: Tenant, orders: Queue) -> None:
    await root.ask("POST", "/exchanges", {"name": "fan"})
    await root.ask("PUT", "/exchanges/fan/bindings/orders")
    await root.ask("PUT", "/exchanges/fan/stages/s1/0", {"messages": [{"body": "a"}]})
    await root.ask("PUT", "/exchanges/fan/publications/q", {"number": 0, "stages": ["s1"]})
    assert (await root.ask("GET", "/exchanges/fan/publications/q"))["count"] == 1
    assert await orders.bodies() == ["a"]
    assert (await root.call("DELETE", "/exchanges/fan/stages/s1")).status == 204


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"not arrow", "not an Arrow stream"),
        (stream(colour=pa.array(["red"])), "the columns are body"),
        (stream(body=pa.array([1])), "column body is int64"),
        (stream(body=pa.array([b"x"]), delay_ms=pa.array(["1"])), "column delay_ms is string"),
        (stream(body=pa.array([None], pa.binary())), "a body is null"),
        (stream(body=pa.array([b"x"]), attributes=pa.array(["[1]"])), "attributes"),
        (stream(body=pa.array([b"x"]), attributes=pa.array(["{"])), "attributes is not a JSON object"),
        (stream(body=pa.array([b"x"]), delay_ms=pa.array([-1])), "message 0: delay_ms is -1"),
        (stream(body=pa.array([], pa.binary())), "the batch has 0 items"),
        (stream(body=pa.array([b"x"]))[:-100], "not an Arrow stream"),
    ],
)
async def test_what_cannot_be_sent_cannot_be_staged(orders: Queue, body: bytes, sentence: str) -> None:
    response = await stage(orders, "s1", 0, body)
    assert response.status == 400
    assert sentence in response.json()["detail"]
    assert (await orders.refused("PUT", "/publications/q", {"number": 0, "stages": ["s1"]}))["status"] == 404


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
async def test_compressed_columns_count_as_what_they_are_when_unpacked(orders: Queue, compression: str) -> None:
    small = stream(compression, body=pa.array([b"x" * 10_000] * 5), id=pa.array([f"m{n}" for n in range(5)]))
    assert (await stage(orders, "s1", 0, small)).status == 204
    await orders.ask("PUT", "/publications/q", {"number": 0, "stages": ["s1"]})
    assert await orders.bodies() == ["x" * 10_000] * 5

    bomb = stream(compression, body=pa.array([bytes(14 * 1024 * 1024)] * 5))
    assert len(bomb) < 1024 * 1024
    response = await stage(orders, "s2", 0, bomb)
    assert response.status == 413
    assert "larger, once it is unpacked, than the 67108864 bytes" in response.json()["detail"]
    assert (await orders.refused("PUT", "/publications/r", {"number": 0, "stages": ["s2"]}))["status"] == 404


@given(places=st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_broken_stream_is_measured_or_refused_as_one_that_is_not_arrow(places: list[tuple[int, int]]) -> None:
    broken = bytearray(stream("zstd", body=pa.array([b"x" * 1_000] * 50)))
    for place, value in places:
        broken[place % len(broken)] = value
    with contextlib.suppress(pa.ArrowInvalid, OSError):
        assert unpacked_size(bytes(broken)) >= 0


async def test_stages_need_the_right_to_send(root: Tenant, orders: Queue) -> None:
    receiver = orders.of(await root.with_scopes(("receive", ALL)))
    for method, path, body in (
        ("PUT", "/stages/s1/0", {"messages": [{"body": "a"}]}),
        ("DELETE", "/stages/s1", None),
        ("PUT", "/publications/q", {"number": 0, "stages": []}),
        ("GET", "/publications/q", None),
    ):
        assert (await receiver.refused(method, path, body))["status"] == 403
