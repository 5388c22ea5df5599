"""A simulated history is one that a broker could have written, and a server serves it and goes on behind it."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from couriermq.cli import main
from couriermq.cli.simulating import make
from couriermq.journal.schema import journal_schema
from couriermq.storage.sqlite import care
from tests.support.server import start_server

EVENTS = 120_000
UNTIL = 1_770_000_000_000
LEAVING = {"acked", "discarded", "purged", "dead_lettered", "redriven"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("simulated") / "data"
    make(directory, events=EVENTS, seed=7, until=UNTIL)
    return directory


@pytest.fixture(scope="module")
def events(data: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(data).to_pylist()
    return found


def read(data: Path) -> Any:
    return ds.dataset(data / "archive", schema=journal_schema()).to_table().sort_by("offset")


def test_it_has_as_many_events_as_asked_for_without_a_gap(data: Path, events: list[dict[str, Any]]) -> None:
    assert [event["offset"] for event in events] == list(range(EVENTS))
    assert care.check(data) == []


def test_every_message_lives_as_a_broker_would_have_it(events: list[dict[str, Any]]) -> None:
    where: dict[int, str] = {}
    leased: set[int] = set()
    for event in events:
        seq, kind, queue = event["seq"], event["kind"], event["queue"]
        if seq is None:
            continue
        if kind == "sent":
            assert seq not in where
            where[seq] = queue
            continue
        assert where[seq] == queue, event
        if kind == "received":
            assert seq not in leased
            leased.add(seq)
        elif kind in {"released", "lease_expired"} or (kind == "acked" and "delivered" not in (event["detail"] or "")):
            leased.remove(seq)
        if kind in {"dead_lettered", "redriven"}:
            where[seq] = json.loads(event["detail"])["target"]
        elif kind in LEAVING:
            del where[seq]


def test_it_is_skewed_has_failures_and_comes_late_at_times(events: list[dict[str, Any]]) -> None:
    kinds = Counter(event["kind"] for event in events)
    assert min(kinds[kind] for kind in ("released", "lease_expired", "dead_lettered", "purged", "extended")) > 2
    sent = Counter((event["tenant"], event["queue"]) for event in events if event["kind"] == "sent")
    ranked = [count for _, count in sent.most_common()]
    assert ranked[0] > 20 * ranked[-1]
    verdicts = Counter(json.loads(event["detail"] or "{}").get("verdict") for event in events if event["seq"])
    assert verdicts["delivered"] > verdicts["retry"] > 10
    late = [second for first, second in itertools.pairwise(events) if second["at"] < first["at"]]
    assert "lease_expired" in {event["kind"] for event in late}


def test_the_same_seed_makes_the_same_history(data: Path, tmp_path: Path) -> None:
    make(tmp_path / "again", events=EVENTS, seed=7, until=UNTIL)
    make(tmp_path / "other", events=EVENTS, seed=8, until=UNTIL)
    assert read(tmp_path / "again").equals(read(data))
    assert not read(tmp_path / "other").equals(read(data))


def test_only_the_result_is_on_standard_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--events", "5000", "--data", str(tmp_path / "data"), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"events": 5_000, "data": str(tmp_path / "data")}
    last = json.loads(printed.err.splitlines()[-1])
    assert (last["job"], last["done"], last["ended"]) == ("simulating", 5_000, "done")


@pytest.mark.slow
def test_a_server_serves_it_and_goes_on_behind_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--events", "5000", "--data", str(tmp_path / "data")]) == 0
    assert "5,000 events" in capsys.readouterr().out
    assert main(["simulate", "--events", "5000", "--data", str(tmp_path / "data")]) == 1
    with start_server(tmp_path) as server:
        session, journal = server.session, f"{server.url}/courier/v1/journal"
        span = session.get(journal, timeout=30).json()
        assert span["oldest"] == 0
        queues = f"{server.url}/courier/v1/tenants/acme/queues/orders"
        sent = session.post(f"{queues}/messages", json={"messages": [{"body": "new"}]}, timeout=30)
        assert sent.status_code < 300, sent.text
        first = session.get(f"{journal}/events?from=0&limit=1", timeout=30).json()["events"][0]
        last = session.get(f"{journal}/events?from=4990&limit=1000", timeout=30).json()["events"]
        assert first["kind"] == "tenant_added"
        assert [event["offset"] for event in last] == list(range(4990, 4990 + len(last)))
        seqs = [event["seq"] for event in last if event["seq"] is not None]
        assert (last[-1]["kind"], last[-1]["seq"]) == ("sent", max(seqs))
