"""Wrote `schema_3.sql.gz` and `schema_3.json.gz` with the last Courier whose PostgreSQL store had schema 3.

It runs on that version only; it stays here to say what the files hold.
"""

import asyncio
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from couriermq.clock import FakeClock
from couriermq.core.model import Ack, Draft, Kind
from couriermq.journal.cursors import Cursors
from couriermq.storage.base import Parcel
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import TENANT, WHO, Rig
from tests.support.postgres import Cluster, program

HERE = Path(__file__).parent
SCHEMA = "courier_schema_3"
LEASE_MS = 600_000


async def fill(url: str) -> dict[str, Any]:
    """Two nodes bring the store into every state that a message, a group or a job can be in; returns what it holds."""
    clock = FakeClock()
    rig, other = Rig(lambda: PostgresStore(url), clock), Rig(lambda: PostgresStore(url), clock)
    await rig.open()
    facts: dict[str, Any] = {"receipts": {}}
    await _dead_and_retried(rig, facts)
    await _packed(rig, facts)
    await _single(rig)
    await _groups(rig, facts)
    await _copies(rig)
    await _jobs(rig, facts)
    await _stages(rig)
    await _doomed(rig)
    await other.open()
    await _overlapping(rig, other)
    await other.close()
    await _journal(rig)
    facts["now"] = rig.now
    facts["queues"] = {queue.name: await _shown(rig, queue.name) for queue in rig.catalog.queues(TENANT)}
    facts["jobs"] = msgspec.to_builtins(await rig.claims.jobs(rig.queue("jobs")))
    facts["span"] = msgspec.to_builtins(await rig.store.spans())[0]
    facts["events"] = [[event.kind, event.at, event.queue, event.seq] for event in await rig.events()]
    facts["last_seq"] = await rig.store.last_seq(rig.queue("orders"))
    assert await rig.store.check() == []
    await rig.close()
    return facts


async def _dead_and_retried(rig: Rig, facts: dict[str, Any]) -> None:
    await rig.create("dead")
    await rig.create("orders", max_attempts=2, dead_letter_queue="dead")
    await rig.send_all("orders", [Draft(body=b"dies")])
    for _ in range(2):
        await rig.release("orders", await rig.receive_one("orders"))
    await rig.send_all("orders", [Draft(body=b"tried %d" % n) for n in range(4)])
    leased, released, waiting, _ = await rig.receive("orders", limit=4, lease_ms=LEASE_MS)
    await rig.release("orders", released)
    await rig.release("orders", waiting, delay_ms=90_000)
    await rig.extend("orders", leased, lease_ms=2 * LEASE_MS)
    facts["receipts"]["orders"] = leased.receipt


async def _packed(rig: Rig, facts: dict[str, Any]) -> None:
    """Messages that share rows: ready ones, leased ones, leased ones of which some are acked, one of each alone."""
    await rig.create("packed")
    await rig.send_all("packed", [Draft(body=b"packed %d" % n) for n in range(30)])
    await rig.send_all("packed", [Draft(body=b"large" * 1_000) for _ in range(2)])
    facts["receipts"]["packed"] = [lease.receipt for lease in await rig.receive("packed", limit=5, lease_ms=LEASE_MS)]
    partly = await rig.receive("packed", limit=6, lease_ms=LEASE_MS)
    await rig.settle("packed", *(Ack(lease.receipt) for lease in partly[1:4]))
    facts["receipts"]["partly acked"] = [lease.receipt for lease in (partly[0], *partly[4:])]
    await rig.create("secret", archive_bodies=False)
    await rig.send_all("secret", [Draft(body=b"hidden %d" % n, attributes={"colour": "blue"}) for n in range(3)])
    await rig.pass_time(ms=1_000)
    await rig.send_all("packed", [Draft(body=b"newest %d" % n) for n in range(3)])


async def _single(rig: Rig) -> None:
    await rig.create("late", delay_ms=45_000)
    await rig.send_all("late", [Draft(body=b"delayed by its queue %d" % n) for n in range(3)])
    await rig.send("orders", b"given", id="mine", attributes={"colour": "red", "n": 3, "ratio": 0.5, "ok": True})
    await rig.send("orders", b"given again", id="mine")
    await rig.send("orders", b"", id="\u00fcber", trace="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
    await rig.send("orders", b"later", delay_ms=60_000)
    await rig.send("orders", b"kept", retention_ms=3_600_000)
    await rig.send("orders", b'{"n": 1}', content_type="application/json")


async def _groups(rig: Rig, facts: dict[str, Any]) -> None:
    await rig.create("line", kind=Kind.FIFO)
    for n, group in enumerate(["a", "a", "b", "a", "\u00e9t\u00e9"]):
        await rig.send("line", f"{group} {n}".encode(), group=group, id=f"line-{n}")
    await rig.send("line", b"delayed head", group="c", id="line-delayed", delay_ms=30_000)
    await rig.send("line", b"behind it", group="c", id="line-behind")
    facts["receipts"]["line"] = (await rig.receive_one("line", lease_ms=LEASE_MS, group_limit=1)).receipt


async def _copies(rig: Rig) -> None:
    await rig.create("listened", keep_delivered=False)
    for name in ("first", "second"):
        await rig.create(name)
    draft = Draft(body=b"for listeners", id="original")
    parcels = [Parcel(rig.queue("listened"), draft)]
    copy = Draft(body=draft.body, id=draft.id)
    parcels += [Parcel(rig.queue(name), copy, copy_of=0) for name in ("first", "second")]
    await rig.store.send(parcels, now=rig.now, principal=WHO)
    await rig.ack("first", await rig.receive_one("first"))


async def _jobs(rig: Rig, facts: dict[str, Any]) -> None:
    queue = await rig.create("jobs")
    await rig.send_all("jobs", [Draft(body=b"job %d" % n) for n in range(8)])
    await rig.claims.open(queue, "spark")
    job = await rig.claims.open(queue, "spark")
    for number in (1, 2, 3):
        await rig.claims.claim(queue, "spark", number, epoch=job.epoch, limit=2, principal=WHO)
    await rig.claims.ack(queue, "spark", upto=1, epoch=job.epoch, principal=WHO)
    facts["epoch"] = job.epoch


async def _stages(rig: Rig) -> None:
    queue = await rig.create("staged")
    await rig.stages.stage(queue, "s1", 0, [Draft(body=b"published")], principal=WHO)
    await rig.stages.publish(queue, "query", 3, ["s1"], principal=WHO)
    await rig.stages.stage(queue, "s2", 0, [Draft(body=b"staged %d" % n) for n in range(2)], principal=WHO)


async def _doomed(rig: Rig) -> None:
    """A queue that was deleted and whose messages are still there."""
    queue = await rig.create("doomed")
    await rig.send_all("doomed", [Draft(body=b"left %d" % n) for n in range(3)])
    await rig.send("doomed", b"left alone", id="alone")
    await rig.catalog.delete_queue(queue, principal=WHO)


async def _overlapping(rig: Rig, other: Rig) -> None:
    """Each node fetches numbers ahead, so rows of one node hold seqs between those of the other."""
    await rig.create("shared")
    await other.store.catch_up()
    for n in range(6):
        await rig.send_all("shared", [Draft(body=b"one %d" % n)] * 3)
        await other.send_all("shared", [Draft(body=b"other %d" % n)] * 2)


async def _journal(rig: Rig) -> None:
    span = (await rig.store.spans())[0]
    cursors = Cursors(rig.store, rig.clock)
    await cursors.advance("reader", span.next - 10)
    assert await rig.store.trim_events(before=12) > 0


async def _shown(rig: Rig, name: str) -> dict[str, Any]:
    messages = [msgspec.to_builtins(message) for message in await rig.browse(name)]
    return {"counters": msgspec.to_builtins(await rig.counters(name)), "messages": messages}


def main() -> None:
    cluster = Cluster()
    try:
        cluster.execute(f"CREATE SCHEMA {SCHEMA}")
        facts = asyncio.run(fill(cluster.url(SCHEMA)))
        dump = [program("pg_dump"), cluster.url(), f"--schema={SCHEMA}", "--no-owner", "--inserts"]
        written = subprocess.run(dump, check=True, capture_output=True).stdout
    finally:
        cluster.remove()
    for name, content in (("schema_3.sql.gz", written), ("schema_3.json.gz", json.dumps(facts).encode())):
        (HERE / name).write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    main()
