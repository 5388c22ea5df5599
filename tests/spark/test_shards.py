"""The tables of a store of two shards, with each dead letter queue on another shard than its source."""

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from couriermq.core.model import Kind
from couriermq.journal.arrow import record_batch
from couriermq.spark.lake import Lake
from tests.spark.test_tables import ms, read, take
from tests.support.engines import Rig
from tests.support.sqlite_shards import SqliteShards

pytestmark = pytest.mark.slow

MINUTE = 60_000


class Shop:
    """Does things to messages, and remembers what has become of each."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.expected: dict[int, dict[str, Any]] = {}

    async def live(self) -> None:
        rig = self.rig
        await rig.create("graves")
        await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
        await rig.create("fallen", kind=Kind.FIFO)
        await rig.create("lines", kind=Kind.FIFO, max_attempts=1, dead_letter_queue="fallen")
        for source, grave in (("orders", "graves"), ("lines", "fallen")):
            sent = [(await rig.send(source, group=f"g{n}")).seq for n in range(5)]
            sent_at = rig.now
            await rig.pass_time(ms=MINUTE)
            leases = {lease.message.seq: lease for lease in await rig.receive(source, limit=5, lease_ms=60 * MINUTE)}
            await rig.ack(source, leases[sent[0]])
            self.note(sent[0], source, source, "acked", 1, sent_at, settled_at=rig.now)
            for seq in sent[1:]:
                await rig.release(source, leases[seq])
            died_at = rig.now
            self.note(sent[1], source, grave, "dead_lettered", 1, sent_at, settled_at=died_at)
            assert await rig.redrive(grave, sent[2:4]) == 2
            again = {lease.message.seq: lease for lease in await rig.receive(source, limit=5, lease_ms=60 * MINUTE)}
            await rig.ack(source, again[sent[2]])
            self.note(sent[2], source, source, "acked", 2, sent_at, settled_at=rig.now)
            self.note(sent[3], source, source, "open", 2, sent_at)
            await rig.pass_time(ms=MINUTE // 2)
            left = {lease.message.seq: lease for lease in await rig.receive(grave, limit=5, lease_ms=60 * MINUTE)}
            await rig.ack(grave, left[sent[4]])
            self.note(sent[4], source, grave, "acked", 2, sent_at, settled_at=rig.now)
            self.expected[sent[1]]["attempts"] += 1  # it was received in its dead letter queue, too

    def note(
        self, seq: int, queue: str, last: str, outcome: str, attempts: int, sent_at: int, settled_at: int | None = None
    ) -> None:
        self.expected[seq] = {
            "queue": queue, "last_queue": last, "outcome": outcome, "attempts": attempts, "sent_at": sent_at,
            "settled_at": settled_at, "time_to_ack_ms": (settled_at or 0) - sent_at if outcome == "acked" else None,
        }  # fmt: skip

    async def journals(self) -> list[list[dict[str, Any]]]:
        found = []
        for journal in self.rig.store.journals():
            (span,) = (await journal.spans()).values()
            entries = await journal.read_events(start=span.oldest, limit=10_000)
            found.append(pa.Table.from_batches([record_batch(entries)]).to_pylist())
        return found


async def lived(folder: Path) -> tuple[Shop, list[list[dict[str, Any]]]]:
    rig = Rig(lambda: SqliteShards(folder, hasty=True))
    await rig.open()
    shop = Shop(rig)
    await shop.live()
    journals = await shop.journals()
    await rig.close()
    return shop, journals


@pytest.mark.parametrize("order", ["home first", "second first", "in one batch", "second first, event by event"])
def test_the_tables_are_what_was_done_in_whichever_order_the_shards_are_read(
    spark: SparkSession, tmp_path: Path, order: str
) -> None:
    shop, (home, second) = asyncio.run(lived(tmp_path / "store"))
    dead = [event for event in home + second if event["kind"] == "redriven"]
    assert {event["queue"] for event in dead} == {"graves", "fallen"}
    batches = {
        "home first": [home, second],
        "second first": [second, home],
        "in one batch": [home + second],
        "second first, event by event": [second[:9], second[9:], home[:9], home[9:]],
    }[order]
    lake = Lake(spark, tmp_path / "lake")
    for number, batch in enumerate(batches):
        take(lake, batch, number)
    names = ("queue", "last_queue", "outcome", "attempts", "time_to_ack_ms")
    rows = read(lake, "messages").select("seq", *names, ms("sent_at"), ms("settled_at")).collect()
    assert {row.seq: {k: v for k, v in row.asDict().items() if k != "seq"} for row in rows} == shop.expected
    latest = read(lake, "queue_minutes").orderBy("minute").select("queue", "backlog", "acked").collect()
    assert {row.queue: row.backlog for row in latest} == {"orders": 1, "graves": 1, "lines": 1, "fallen": 1}
    assert min(row.backlog for row in latest) >= 0
    deaths = read(lake, "dead_letters").select("seq", "dead_letter_queue").collect()
    assert len(deaths) == len({row.seq for row in deaths}) == 8
