"""Wrote `schema_3.db.gz` and `schema_3.json` with the last Courier whose SQLite store had schema 3.

It runs on that version only; it stays here to say what the file holds.
"""

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

from couriermq.core.model import Draft, Kind
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig

HERE = Path(__file__).parent


async def main(directory: Path) -> None:
    rig = Rig(lambda: SqliteStore(directory, min_free_bytes=0))
    await rig.open()
    await rig.create("dead")
    await rig.create("orders", max_attempts=2, dead_letter_queue="dead")
    await rig.create("secret", archive_bodies=False)
    await rig.create("line", kind=Kind.FIFO)
    await rig.create("jobs")
    facts: dict[str, Any] = {"now": rig.now, "receipts": {}}
    await rig.send_all("orders", [Draft(body=b"dies")])
    for _ in range(2):
        (lease,) = await rig.receive("orders", limit=1)
        await rig.release("orders", lease)
    await rig.send_all("orders", [Draft(body=f"plain {n}".encode()) for n in range(4)])
    first, second = await rig.receive("orders", limit=2, lease_ms=600_000)
    await rig.release("orders", second)
    facts["receipts"]["orders"] = first.receipt
    await rig.send("orders", b"given", id="mine", attributes={"colour": "red", "n": 3})
    await rig.send("orders", b"later", delay_ms=60_000)
    await rig.send("orders", b"kept", retention_ms=3_600_000)
    await rig.send("orders", b"large" * 1_000)
    await rig.send("secret", b"hidden", attributes={"colour": "blue"})
    for n, group in enumerate("aab"):
        await rig.send("line", f"{group} {n}".encode(), group=group, id=f"line-{n}")
    (held,) = await rig.receive("line", limit=1, lease_ms=600_000)
    facts["receipts"]["line"] = held.receipt
    await rig.send_all("jobs", [Draft(body=f"job {n}".encode()) for n in range(3)])
    job = await rig.claims.open(rig.queue("jobs"), "spark")
    await rig.claims.claim(rig.queue("jobs"), "spark", 1, epoch=job.epoch, limit=2, principal="tester")
    facts["epoch"] = job.epoch
    facts["bodies"] = {
        name: sorted(message.body.decode() for message in await rig.browse(name))
        for name in ("dead", "orders", "secret", "line", "jobs")
    }
    facts["events"] = (await rig.store.spans())[0].next
    await rig.close()
    (HERE / "schema_3.db.gz").write_bytes(gzip.compress((directory / "courier.db").read_bytes(), mtime=0))
    (HERE / "schema_3.json").write_text(json.dumps(facts, indent=2) + "\n")


if __name__ == "__main__":
    import tempfile

    asyncio.run(main(Path(tempfile.mkdtemp())))
