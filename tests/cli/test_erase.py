"""Erasing: gone from queues, archive and tables, while every offset stays in its place."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from couriermq.cli.erasing import _speaks_of
from couriermq.cli.erasure_receipt import Receipt, begin, write
from couriermq.cli.exits import Failure
from couriermq.cli.lakes import only_writer
from couriermq.journal.place import LocalPlace
from couriermq.journal.schema import journal_schema
from couriermq.journal.segments import Segment, name_of
from couriermq.lake.blanking import Found, Wanted, blank, find, hash_of, look_for
from couriermq.lake.erasing import _erase_file, erase_segments, look_through, ranges, sealed_segments
from couriermq.lake.tables import Lake
from tests.cli.conftest import Courier
from tests.support.lakes import put, read_journal, write_tables
from tests.support.server import ServerProcess, start_server

T = "/courier/v1/tenants/default"


def event(offset: int, **given: Any) -> dict[str, Any]:
    whole = dict.fromkeys(journal_schema().names) | {"offset": offset, "kind": "sent", "at": 1, "tenant": "default"}
    whole |= {"queue": "orders", "queue_id": "q", "seq": offset, "message_id": f"m{offset}", "body": b"x"}
    return whole | {"detail": json.dumps({"attributes": {"user": "ada"}, "content_type": "text/plain"})} | given


def table(*events: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(events), journal_schema())


def found_in(rows: pa.Table, wanted: Wanted) -> Found:
    found = Found()
    find(rows, wanted, found)
    return found


def test_a_row_loses_what_is_the_senders_and_keeps_its_place() -> None:
    rows = table(
        event(1), event(2, message_id="other"), event(3, kind="dead_lettered", seq=1, message_id="m1", body=None)
    )
    wanted = Wanted(tenant="default", message_id="m1")
    blanked, offsets = blank(rows, wanted, found_in(rows, wanted))
    assert offsets == [1, 3]
    first, second, third = blanked.to_pylist()
    assert (first["message_id"], first["body"], first["detail"]) == ("erased-1", None, '{"erased":true}')
    assert (first["offset"], first["kind"], first["queue"], first["seq"]) == (1, "sent", "orders", 1)
    assert second == rows.to_pylist()[1]
    assert third["message_id"] == "erased-1"


def test_an_attribute_must_be_the_same_value_of_the_same_kind() -> None:
    attributes = [{"age": 7}, {"age": "7"}, {"age": 7.5}, {"other": 7}, {"age": True}, {"age": 1}]
    rows = table(*(event(n, detail=json.dumps({"attributes": one})) for n, one in enumerate(attributes)))
    assert found_in(rows, Wanted(tenant="default", attribute=("age", 7))).seqs == {0}
    assert found_in(rows, Wanted(tenant="default", attribute=("age", True))).seqs == {4}
    assert found_in(rows, Wanted(tenant="other", attribute=("age", 7))).seqs == set()


def test_copies_for_listeners_go_with_the_message_and_strangers_with_its_id_do_not() -> None:
    rows = table(
        event(1, message_id="shared"),
        event(2, message_id="shared", queue="~listener", detail=None),
        event(3, message_id="shared", queue="elsewhere"),
        event(4, message_id="shared", kind="published", seq=None, detail='{"queue_count":2}'),
    )
    wanted = Wanted(tenant="default", message_id="shared", queue="orders")
    blanked, offsets = blank(rows, wanted, found_in(rows, wanted))
    assert offsets == [1, 2, 4]
    assert blanked.column("message_id").to_pylist()[2] == "shared"
    assert json.loads(blanked.column("detail")[3].as_py()) == {"queue_count": 2, "erased": True}


def told(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The events as the server tells of them."""
    return [row | {"detail": json.loads(row["detail"]) if row["detail"] else None} for row in rows]


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(tenant="default", attribute=("user", "ada")),
        Wanted(tenant="default", message_id="shared", queue="orders"),
    ],
)
@pytest.mark.parametrize("sealed_count", [1, 2])
def test_copies_that_are_not_sealed_yet_are_pending_and_are_erased_later(wanted: Wanted, sealed_count: int) -> None:
    """Whether something of the copy is sealed already, or nothing."""
    copy: dict[str, Any] = {"message_id": "shared", "queue": "~listener", "seq": 2, "detail": None, "body": None}
    events = [
        event(1, message_id="shared"),
        event(2, **copy),
        event(3, kind="received", **copy),
        event(4, kind="acked", **copy | {"detail": '{"delivered":true}'}),
        event(5, message_id="shared", kind="published", seq=None, detail='{"queue_count":2}'),
    ]
    strangers = [
        event(6, message_id="shared", queue="elsewhere", detail=None),
        event(7, message_id="other", queue="~listener", detail=None),
    ]
    rows = table(*events[:sealed_count])
    found = found_in(rows, wanted)
    blank(rows, wanted, found)
    left = [*events[sealed_count:], *strangers]
    pending = [one["offset"] for one in told(*left) if _speaks_of(one, wanted, found)]
    assert pending == [one["offset"] for one in events[sealed_count:]]
    rows = table(*left)
    find(rows, wanted, found)
    assert blank(rows, wanted, found)[1] == pending
    later = table(event(8, kind="dead_lettered", **copy))
    assert blank(later, wanted, Found(copies=found.copies))[1] == [8]


def test_a_run_after_one_that_was_killed_finds_copies_of_messages_that_have_lost_their_id() -> None:
    wanted = Wanted(tenant="default", attribute=("user", "ada"))
    first, copy = table(event(1, message_id="shared")), event(2, message_id="shared", queue="~listener", detail=None)
    rest = table(copy, event(3, message_id="shared", kind="published", seq=None), event(4, queue="~listener"))
    blanked, _ = blank(first, wanted, found_in(first, wanted))
    found = Found(seqs={1}, hashes={hash_of("shared")})
    assert [_speaks_of(one, wanted, found) for one in told(copy, copy | {"message_id": "other"})] == [True, False]
    for rows in (blanked, rest):
        find(rows, wanted, found)
    assert [blank(rows, wanted, found)[1] for rows in (blanked, rest)] == [[], [2, 3]]


def receipt_of(**given: Any) -> Receipt:
    whole: dict[str, Any] = {"erased_at": 5, "store": "s", "tenant": "default", "queue": None, "asked_sha256": "a"}
    return Receipt(**whole | given)


def test_a_receipt_that_is_not_complete_is_gone_on_with_where_it_is(tmp_path: Path) -> None:
    first = receipt_of(erased_at=1, seqs=[3], live_removed=2, archive=["one"], tables={"events": ["e"]})
    write(first, tmp_path / "1.json")
    write(receipt_of(erased_at=2, complete=True, seqs=[4]), tmp_path / "2.json")
    for n, other in enumerate(({"store": "t"}, {"tenant": "x"}, {"queue": "orders"}, {"asked_sha256": "b"})):
        write(receipt_of(erased_at=3, seqs=[5], **other), tmp_path / f"other-{n}.json")
    (tmp_path / "strange.json").write_text("not a receipt")
    again = receipt_of(seqs=[1])
    assert begin(again, None, tmp_path) == tmp_path / "1.json"
    assert (again.erased_at, again.seqs, again.live_removed, again.archive) == (1, [1, 3], 2, ["one"])
    moved = receipt_of()
    assert begin(moved, tmp_path / "named.json", tmp_path) == tmp_path / "named.json"
    assert (moved.seqs, moved.tables, (tmp_path / "1.json").exists()) == ([1, 3], {"events": ["e"]}, False)
    with pytest.raises(Failure, match="is no file"):
        begin(receipt_of(), Path("/dev/null"), tmp_path)


def test_a_segment_that_lies_inside_another_is_erased_too(tmp_path: Path) -> None:
    """A node that had stood still has published it; no reader of the archive looks into it, but it is a file."""
    place = LocalPlace(tmp_path / "archive")
    place.sweep()
    for end in (1, 2):
        draft = place.create(f"{end}")
        pq.write_table(table(event(0), event(1))[:end], draft.sink)
        draft.publish(name_of(0, end))
    wanted = Wanted(tenant="default", message_id="m0")
    sealed = [Segment(0, 3, 1), *sealed_segments(place)]  # the server has removed the first one since
    *_, found = look_through(place, sealed, Lake(tmp_path / "lake"), wanted, look_for(wanted))
    done = [one for one in erase_segments(place, sealed, wanted, found) if one]
    assert sorted(one.file for one in done) == [name_of(0, 1), name_of(0, 2)]
    rows = [pq.read_table(path).column("message_id")[0].as_py() for path in (tmp_path / "archive").glob("*.parquet")]
    assert rows == ["erased-0", "erased-0"]


def test_what_an_earlier_erasure_could_not_reach_is_erased_by_the_next() -> None:
    rows = table(event(1, message_id="erased-1", body=None), event(2, kind="purged", seq=1, message_id="m1"))
    wanted = Wanted(tenant="default", attribute=("user", "nobody"))
    _, offsets = blank(rows, wanted, found_in(rows, wanted))
    assert offsets == [2]


def test_a_file_that_the_pipeline_replaces_meanwhile_is_taken_up_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"offset": 1, "tenant": "default", "queue": "orders", "seq": 1, "message_id": "m1"}]
    path = put(tmp_path, "messages", rows)
    from couriermq.lake import erasing

    rewrite = erasing._rewrite
    calls: list[tuple[Any, ...]] = []

    def replaced_once(*arguments: Any) -> list[int]:
        changed = rewrite(*arguments)
        if not calls:
            put(tmp_path, "messages", [*rows, rows[0] | {"seq": 2, "message_id": "new"}])
        calls.append(arguments)
        return changed

    monkeypatch.setattr(erasing, "_rewrite", replaced_once)
    done = _erase_file(path, Wanted(tenant="default", message_id="m1"), Found(seqs={1}))
    assert done is not None
    assert pq.read_table(path).column("message_id").to_pylist() == ["erased-1", "new"]
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_ranges_have_both_ends() -> None:
    assert ranges([5, 1, 2, 3, 9, 2]) == [(1, 3), (5, 5), (9, 9)]


# -- the command ----------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, archive_segment_ms=500) as server:
        call = server.session
        call.post(f"{server.url}{T}/queues", json={"name": "orders"}, timeout=30)
        for n in range(40):
            message = {"id": f"o{n}", "body": f"secret of {n}", "attributes": {"user": f"u{n % 4}", "n": n}}
            call.post(f"{server.url}{T}/queues/orders/messages", json=message, timeout=30)
        leases = call.post(f"{server.url}{T}/queues/orders/receive", json={"limit": 20}, timeout=30).json()["leases"]
        receipts = [lease["receipt"] for lease in leases]
        call.post(f"{server.url}{T}/queues/orders/ack", json={"receipts": receipts}, timeout=30)
        write_tables(server.data / "lake", read_journal(server))
        yield server


@pytest.mark.slow
def test_one_persons_messages_are_gone_everywhere_and_the_rest_is_as_it_was(
    shop: ServerProcess, tmp_path: Path
) -> None:
    courier = Courier(COURIER_URL=shop.url, COURIER_TOKEN=shop.token, COURIER_DATA=str(shop.data))
    before = read_journal(shop)
    receipt = tmp_path / "receipt.json"
    told = courier.ok("erase", "-a", "user=u1", "--wait", "30s", "--receipt", receipt, "--yes", "--json").json
    assert (told["complete"], told["live_removed"], len(told["seqs"])) == (True, 5, 10)
    assert json.loads(receipt.read_text())["seqs"] == told["seqs"]
    assert "u1" not in receipt.read_text()

    after = read_journal(shop)
    assert [one["offset"] for one in after] == list(range(len(after)))
    gone = {f"o{n}" for n in range(40) if n % 4 == 1}
    for row in after:
        assert row["message_id"] not in gone
        assert not ((row["body"] or b"").startswith(b"secret") and row["seq"] in told["seqs"])
        assert '"u1"' not in (row["detail"] or "")
    kept = [one for one in before if one["message_id"] not in gone]
    assert [one for one in after if one["offset"] < len(before) and one["seq"] not in told["seqs"]] == kept

    lake = Lake(shop.data / "lake")
    for name in ("events", "messages"):
        ids = set(lake.read(name, ["message_id"]).column("message_id").to_pylist()) - {None}
        assert not ids & gone
        assert len(ids & {f"o{n}" for n in range(40)}) == 30
        assert told["tables"][name][0]["rows"] > 0
    bodies = duckdb.execute(f"SELECT body FROM '{shop.data}/archive/*.parquet' WHERE body IS NOT NULL").fetchall()
    assert sorted(body for (body,) in bodies) == sorted(f"secret of {n}".encode() for n in range(40) if n % 4 != 1)
    assert sum(one["rows"] for one in told["archive"]) >= 10 + 5 + 5
    left = shop.session.get(f"{shop.url}{T}/queues/orders/messages?limit=100", timeout=30).json()["messages"]
    assert sorted(message["id"] for message in left) == sorted(f"o{n}" for n in range(20, 40) if n % 4 != 1)

    again = courier.ok("erase", "-a", "user=u1", "--yes", "--json").json
    assert (again["complete"], again["archive"], again["live_removed"]) == (True, [], 0)


@pytest.mark.slow
def test_what_a_run_that_failed_has_done_is_in_the_receipt_of_the_next(shop: ServerProcess) -> None:
    courier = Courier(COURIER_URL=shop.url, COURIER_TOKEN=shop.token, COURIER_DATA=str(shop.data))
    command = ("erase", "-a", "user=u1", "--wait", "30s", "--yes", "--json")
    before = courier.ok("browse", "orders", "--json").json
    assert courier(*command, "--receipt", shop.data / "courier.db" / "receipt.json").code == 1
    assert courier.ok("browse", "orders", "--json").json == before
    (path,) = Lake(shop.data / "lake").files("messages")
    whole = path.read_bytes()
    path.write_bytes(b"not a table")
    assert courier(*command).code != 0
    (receipt,) = (shop.data / "erasures").glob("*.json")
    first = json.loads(receipt.read_text())
    assert (first["complete"], first["live_removed"], len(first["seqs"])) == (False, 5, 10)
    assert first["tables"]["events"]
    path.write_bytes(whole)
    told = courier.ok(*command).json
    assert (told["complete"], told["live_removed"], told["seqs"]) == (True, 5, first["seqs"])
    assert told["archive"][: len(first["archive"])] == first["archive"]
    assert told["tables"]["events"][:1] == first["tables"]["events"]
    assert (list(receipt.parent.iterdir()), json.loads(receipt.read_text())) == ([receipt], told)


@pytest.mark.slow
def test_what_the_journal_has_not_sealed_is_told_and_not_hidden(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        courier = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_DATA=str(server.data))
        courier.ok("queues", "create", "orders")
        courier.ok("send", "orders", "secret", "--id", "m1")
        refused = courier("erase", "--message", "m1", "--yes", "--json")
        assert refused.code == 1
        assert (refused.json["complete"], refused.json["live_removed"]) == (False, 1)
        first, last = refused.json["pending_offsets"][0]
        assert last - first == 1
        assert "has not sealed 2 events" in refused.err
        assert list((server.data / "erasures").glob("*.json"))
        assert courier("erase", "--message", "m1", "-a", "a=b").code == 2
        assert courier("erase").code == 2


@pytest.mark.slow
def test_nothing_is_erased_while_a_pipeline_writes_into_the_lake(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        courier = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_DATA=str(server.data))
        courier.ok("queues", "create", "orders")
        courier.ok("send", "orders", "secret", "--id", "m1")
        with only_writer(server.data / "lake"):
            refused = courier("erase", "--message", "m1", "--yes")
        assert (refused.code, "another pipeline is at work" in refused.err) == (1, True)
        assert courier.ok("browse", "orders", "--json").json[0]["id"] == "m1"
        assert not (server.data / "erasures").exists()
