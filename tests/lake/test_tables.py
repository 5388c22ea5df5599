"""The lake as readers without Spark see it."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from couriermq.lake.blanking import Found, Wanted
from couriermq.lake.erasing import erase_table
from couriermq.lake.tables import Freshness, Lake, Within, in_ms
from tests.support.lakes import commit, put

NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z


def test_only_what_is_meant_for_readers_is_read(tmp_path: Path) -> None:
    put(tmp_path, "messages", [{"seq": 1}], folder="bucket=0")
    put(tmp_path, "messages", [{"seq": 2}], folder="bucket=1")
    put(tmp_path, "messages", [{"seq": 3}], folder="_staging/bucket=2")
    (tmp_path / "messages" / ".half.parquet").write_bytes(b"PAR1")
    assert Lake(tmp_path).read("messages").column("seq").to_pylist() == [1, 2]
    assert Lake(tmp_path / "nowhere").read("messages", ["seq"]).num_rows == 0


def test_a_column_that_older_files_lack_is_null(tmp_path: Path) -> None:
    put(tmp_path, "messages", [{"seq": 1}], folder="a")
    put(tmp_path, "messages", [{"seq": 2, "colour": "red"}], folder="b")
    rows = Lake(tmp_path).read("messages", ["colour", "seq", "size"])
    assert rows.to_pylist() == [
        {"colour": None, "seq": 1, "size": None},
        {"colour": "red", "seq": 2, "size": None},
    ]


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("ms", "UTC")])
def test_time_is_compared_whatever_the_writer_made_of_it(tmp_path: Path, kind: pa.DataType) -> None:
    instants = pa.array([NOON, NOON + 1, NOON + 2], pa.int64()).cast(pa.timestamp("ms")).cast(kind)
    (tmp_path / "events").mkdir()
    pq.write_table(pa.table({"at": instants, "n": [0, 1, 2]}), tmp_path / "events" / "x.parquet")
    lake = Lake(tmp_path)
    assert lake.read("events", ["n"], within=Within("at", NOON + 1, NOON + 2)).column("n").to_pylist() == [1]
    assert lake.read("events", ["n"], within=Within("at"), where=pc.field("n") > 1).column("n").to_pylist() == [2]
    assert in_ms(lake.read("events").column("at")).to_pylist() == [NOON, NOON + 1, NOON + 2]


def test_days_before_the_one_that_is_asked_for_are_not_opened(tmp_path: Path) -> None:
    put(tmp_path, "queue_minutes", [{"n": 2}], folder="day=2023-11-15/hour=07")
    old = tmp_path / "queue_minutes" / "day=2023-11-14" / "x.parquet"
    old.parent.mkdir()
    old.write_bytes(b"cannot be read")
    assert Lake(tmp_path).read("queue_minutes", since_day="2023-11-15").column("n").to_pylist() == [2]
    assert Lake(tmp_path).days("queue_minutes") == ["2023-11-14", "2023-11-15"]


def test_the_tables_are_as_fresh_as_the_last_batch_that_was_committed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    assert lake.freshness() is None
    commit(tmp_path, 9, {0: 900})
    commit(tmp_path, 10, {0: 1_000})
    (tmp_path / "_checkpoint" / "offsets" / "11").write_text('v1\n{}\n{"0": 1100}')  # begun, not done
    (tmp_path / "_checkpoint" / "commits" / ".10.crc").write_text("")
    assert lake.freshness() == Freshness(10, {"0": 1_000})


def test_a_delta_table_is_read_by_its_log_and_erased_through_it(tmp_path: Path) -> None:
    rows = [
        {"tenant": "default", "queue": "orders", "seq": n, "message_id": f"m{n}", "offset": n, "body": b"secret %d" % n,
         "detail": json.dumps({"n": n})}
        for n in range(4)
    ]  # fmt: skip
    for part in (rows[:2], rows[2:]):
        write_deltalake(str(tmp_path / "events"), pa.Table.from_pylist(part), mode="append")
    put(tmp_path, "events", [{"seq": 99}])  # a file that the log does not know of
    lake = Lake(tmp_path)
    assert sorted(lake.read("events").column("seq").to_pylist()) == [0, 1, 2, 3]
    wanted, found = Wanted(tenant="default", message_id="m2"), Found(seqs={2}, ids={"m2"})
    (done,) = erase_table(lake, "events", wanted, found)
    assert done is not None
    assert done.rows == 1
    after = {row["seq"]: row for row in lake.read("events").to_pylist()}
    assert (after[2]["message_id"], after[2]["body"]) == ("erased-2", None)
    assert after[1]["body"] == b"secret 1"
    raw = b"".join(path.read_bytes() for path in (tmp_path / "events").rglob("*.parquet"))
    assert b"secret 2" not in raw
    assert list(erase_table(lake, "events", wanted, found)) == []
