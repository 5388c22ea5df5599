"""What listeners of a query read out of its progress, which may have several sources; without Spark."""

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, StructType

from couriermq.spark.consume import ClaimKeeper, ConsumingReader
from couriermq.spark.cursors import CursorKeeper
from couriermq.spark.journal import Journal
from couriermq.spark.options import read_options
from couriermq.spark.queues import Epoch, Job

STAMP = "store/1"
ELSEWHERE = [{"topic": {"0": 99}}, {"logOffset": 98}, 97, None]
"""What sources of others say."""


def progress(*offsets: Any, name: str = "query") -> Any:
    """Spark's description of a source is the name of a class, and says nothing of its options."""
    texts = [None if offset is None else json.dumps(offset) for offset in offsets]
    sources = [SimpleNamespace(description="PythonMicroBatchStream@1f", endOffset=text) for text in texts]
    return SimpleNamespace(name=name, sources=sources)


# -- claims ---------------------------------------------------------------------------------------------------


class Acks(list[tuple[str, str, str, int]]):
    """Stands in for the server: which job acked how far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Journal, "reach", lambda journal: None)
        monkeypatch.setattr(Job, "open", lambda job: Epoch(1, 0, 0, STAMP))
        monkeypatch.setattr(Job, "epoch", lambda job: 1)
        monkeypatch.setattr(Job, "claim", lambda job, epoch, number, limit, ready_by: 5)
        monkeypatch.setattr(Job, "ack", lambda job, epoch, upto: self.append((job.tenant, job.queue, job.name, upto)))


@pytest.fixture
def acks(monkeypatch: pytest.MonkeyPatch) -> Acks:
    return Acks(monkeypatch)


def claimed(number: int, **options: str) -> dict[str, Any]:
    """The offset of a source that has claimed so often."""
    given = {"mode": "consume", "url": "http://courier", "queue": "orders", "job": "billing"} | options
    reader = ConsumingReader(read_options(given), StructType().add("body", BinaryType()))
    return reader.latestOffset({"claim": number - 1}, ReadMaxRows(10))


def keeper(**options: str) -> ClaimKeeper:
    return ClaimKeeper(query="query", **{"url": "http://courier", "queue": "orders", "job": "billing"} | options)


@pytest.mark.parametrize("other", [{"job": "shipping"}, {"queue": "bills"}, {"tenant": "acme"}])
def test_a_keeper_acks_what_its_own_job_has_come_to(acks: Acks, other: dict[str, str]) -> None:
    theirs, ours = claimed(40, **other), claimed(7)
    acks.clear()
    keeper().onQueryProgress(SimpleNamespace(progress=progress(theirs, *ELSEWHERE, ours)))
    assert acks == [("default", "orders", "billing", 7)]


def test_a_keeper_whose_job_is_in_none_of_the_sources_acks_nothing_and_says_so_once(
    acks: Acks, caplog: pytest.LogCaptureFixture
) -> None:
    other, elsewhere, kept = claimed(40, job="shipping"), claimed(7), keeper()
    acks.clear()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            kept.onQueryProgress(SimpleNamespace(progress=progress(other)))
            kept.onQueryProgress(SimpleNamespace(progress=progress(elsewhere, name="another")))
    assert acks == []
    assert [record.getMessage() for record in caplog.records] == [
        "query 'query' has no source that consumes queue 'orders' of tenant 'default' as job 'billing', in these words:"
        " its claims are acked with the next batch each"
    ]


# -- cursors --------------------------------------------------------------------------------------------------


@pytest.fixture
def cursor(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    moved: list[int] = []
    monkeypatch.setattr(Journal, "stamp", lambda journal: STAMP)
    monkeypatch.setattr(Journal, "advance_cursor", lambda journal, cursor, offset: moved.append(offset))
    return moved


@pytest.mark.parametrize(
    ("offsets", "reached"),
    [
        ([{"0": 12, "store": STAMP}], [12]),
        ([*ELSEWHERE, {"claim": 3, "store": STAMP}, {"0": 12, "store": STAMP}], [12]),
        ([{"0": 12, "0.1": 2199023255600, "store": STAMP}, {"0": 9, "store": STAMP}], [9]),
        ([{"0": 5, "store": "other/1"}, {"0": 12, "store": STAMP}], [12]),
        ([{"0": 5, "store": "other/1"}, {"0": 12, "store": "another/1"}], []),
        ([{"0": "a position", "store": STAMP}, {"0": 12, "store": STAMP}], [12]),
        (ELSEWHERE, []),
    ],
    ids=[
        "alone",
        "among others",
        "the one that is behind",
        "of this store",
        "of other stores",
        "beside a tenant's",
        "only others",
    ],
)
def test_a_cursor_follows_the_sources_of_its_journal(cursor: list[int], offsets: list[Any], reached: list[int]) -> None:
    CursorKeeper(Journal("http://courier"), "lake", query="query").keep(progress(*offsets))
    assert cursor == reached
