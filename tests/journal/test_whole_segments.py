"""Whoever wants most of a large segment may have its file; the events are the same as by the usual way."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests
from pyspark.sql.types import LongType, StructField, StructType

from couriermq.cli.simulating import make
from couriermq.journal.schema import NAMES
from couriermq.journal.segments import read_pieces
from couriermq.spark.journal import ARROW, PARQUET, PREFIX, Journal, Wanted
from couriermq.spark.options import read_options
from couriermq.spark.source import Range, StreamReader
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

EVENTS = 120_000
ANY = f"{PARQUET}, {ARROW}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("segments")
    make(folder / "data", events=EVENTS, seed=3, until=round(time.time() * 1_000))
    with start_server(folder, engine="sqlite") as process:
        yield process


def kind_of(server: ServerProcess, query: str, accept: str = ANY) -> str:
    url = f"{server.url}{PREFIX}/events?{query}"
    with server.session.get(url, headers={"Accept": accept}, timeout=30, stream=True) as answer:
        assert answer.status_code == 200, answer.text
        return answer.headers["content-type"]


def read(server: ServerProcess, start: int, stop: int, *columns: str) -> pa.Table:
    batches = Journal(server.url, server.token).read(start, stop, Wanted(columns or NAMES))
    return pa.Table.from_batches(batches).combine_chunks()


@pytest.mark.parametrize(("start", "stop"), [(0, EVENTS), (7, EVENTS - 11), (40_000, 110_000)])
def test_a_file_has_the_events_that_the_stream_has(server: ServerProcess, start: int, stop: int) -> None:
    assert kind_of(server, f"from={start}&to={stop}&limit={stop - start}") == PARQUET
    whole = read(server, start, stop)
    assert whole["offset"].to_pylist() == list(range(start, stop))
    others = [name for name in NAMES if name != "body"]  # one column less is the usual way
    assert whole.select(others) == read(server, start, stop, *others)


def test_only_who_wants_most_of_a_large_segment_gets_its_file(server: ServerProcess) -> None:
    everything = f"from=0&limit={EVENTS}"
    assert kind_of(server, everything) == PARQUET
    assert kind_of(server, everything, accept=ARROW) == ARROW
    assert kind_of(server, f"{everything}&format=arrow") == ARROW
    assert kind_of(server, f"{everything}&columns=offset,kind") == ARROW
    assert kind_of(server, f"{everything}&kind=sent") == ARROW
    assert kind_of(server, f"{everything}&tenant=acme") == ARROW
    assert kind_of(server, "from=0&limit=40000") == ARROW
    assert kind_of(server, f"from={EVENTS - 20_000}&limit=20000") == ARROW


def test_a_file_comes_with_its_length_and_as_it_is(server: ServerProcess) -> None:
    url = f"{server.url}{PREFIX}/events?from=0&limit={EVENTS}"
    answer = server.session.get(url, headers={"Accept": ANY}, timeout=30)
    (file,) = (path for path in server.data.glob("archive/*.parquet") if path.name.startswith("0" * 20))
    assert int(answer.headers["content-length"]) == file.stat().st_size
    assert answer.content == file.read_bytes()


def test_a_file_that_ends_too_early_does_not_pass_for_whole() -> None:
    pieces = read_pieces(pa.BufferReader(b"PAR1"), 5)
    assert next(pieces) == b"PAR1"
    with pytest.raises(OSError, match="1 bytes too early"):
        next(pieces)


def test_tasks_begin_and_end_where_segments_do_and_share_none(tmp_path: Path) -> None:
    make(tmp_path / "data", events=600_000, seed=5, until=round(time.time() * 1_000))
    with start_server(tmp_path, engine="sqlite") as server:
        options = {"url": server.url, "token": server.token, "rowsPerPartition": "220000"}
        reader = StreamReader(read_options(options), StructType([StructField("offset", LongType())]))
        parts = reader.partitions({"0": 0}, {"0": 600_000})
    ranges = [(part.start, part.stop) for part in parts if isinstance(part, Range)]
    assert ranges == [(0, 250_000), (250_000, 500_000), (500_000, 600_000)]


def test_a_server_that_does_not_tell_its_segments_is_read_all_the_same(server: ServerProcess) -> None:
    assert Journal(f"{server.url}/elsewhere", server.token).borders(0, EVENTS) == []


def test_a_tenant_never_gets_a_file_that_has_others_events_in_it(server: ServerProcess) -> None:
    credential = {"name": "reader", "scopes": [{"action": "stats"}]}
    made = server.session.post(f"{server.url}/courier/v1/tenants/acme/credentials", json=credential, timeout=30)
    assert made.status_code == 201, made.text
    headers = {"Authorization": f"Bearer {made.json()['secret']}", "Accept": f"{PARQUET}, {ARROW}"}
    response = requests.get(f"{server.url}/courier/v1/journal/events?limit={EVENTS}", headers=headers, timeout=30)
    assert response.headers["content-type"] == ARROW
    assert set(pa.ipc.open_stream(response.content).read_all()["tenant"].to_pylist()) == {"acme"}


def test_a_file_that_was_written_before_a_column_was_added_has_it_empty(tmp_path: Path) -> None:
    make(tmp_path / "data", events=60_000, seed=4, until=round(time.time() * 1_000))
    (segment,) = (tmp_path / "data" / "archive").glob("*.parquet")
    old = pq.read_table(segment).drop_columns("detail")
    pq.write_table(old, segment, compression="zstd")
    with start_server(tmp_path, engine="sqlite") as server:
        assert kind_of(server, "from=0&to=60000&limit=60000") == PARQUET
        rows = read(server, 0, 60_000)
    assert rows.drop_columns("detail") == old.combine_chunks()
    assert rows["detail"].null_count == 60_000
