"""`courier replay`."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.data import LakePlace, lake_directory
from couriermq.cli.exits import Exit, Failure, usage
from couriermq.cli.options import Flag, Yes
from couriermq.cli.progress import Progress
from couriermq.cli.publishing import publish, published
from couriermq.cli.quantities import show_count, show_instant, show_size
from couriermq.cli.replay_plan import Order, Plan
from couriermq.cli.screen import Column, Screen
from couriermq.cli.spark import SPARK, Spark
from couriermq.clock import SystemClock
from couriermq.lake.tables import EVENTS, Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Json = dict[str, Any]
Table = Literal["events", "messages", "dead_letters"]

PORTION = 1_000
"""Messages that appear in the queue together."""
SPARK_LOG = Path("_logs") / "spark.log"
_COLUMNS = [
    Column("ID", cut=True),
    Column("QUEUE"),
    Column("SENT"),
    Column("SIZE", right=True),
    Column("BODY", cut=True),
]


def replay(
    *,
    from_: Annotated[Table, Parameter(name="--from", metavar="TABLE")],
    where: Annotated[str, Parameter(metavar="SQL")],
    to: Annotated[str, Parameter(metavar="QUEUE")],
    rate: Annotated[int | None, Parameter(metavar="N")] = None,
    name: str = "1",
    preview: Flag = False,
    yes: Yes = False,
    lake: LakePlace = None,
    spark: Spark = SPARK,
    remote: Remote = REMOTE,
) -> None:
    """Send messages of the past again: those whose rows in a table of the lake fulfil a condition, each exactly once.

    What will be sent is counted and shown first. A replay that was stopped goes on where it was when the same command
    is given again; one that is done is not done again, unless under another name.

    Parameters
    ----------
    from_
        The table that the condition is about: events, messages or dead_letters.
    where
        A condition in SQL, such as "queue = 'orders' AND outcome = 'dead_lettered'".
    to
        The queue that gets them.
    rate
        At most so many messages a second.
    name
        Tells this replay from another one of the same messages.
    preview
        Only show what would be sent.
    """
    if rate is not None and rate < 1:
        raise usage("--rate must be at least 1")
    if not preview:
        remote.screen.require_answer(f"send the messages that are found to {to}?", yes=yes)
    spark.where()
    target = remote.client.get(remote.queue(to))
    tables = Lake(lake_directory(lake))
    plan = Plan(tables.root, Order(table=from_, where=where, tenant=remote.tenant, queue=target["id"], name=name))
    if plan.finished_at is not None:
        raise Failure(f"this was replayed at {show_instant(plan.finished_at)}; give it another --name to do it again")
    if not plan.is_written:
        _require(tables, from_)
        with spark.session("courier replay", log=tables.root / SPARK_LOG, screen=remote.screen) as session:
            if not _find(session, tables, plan, remote.screen, to=to, rate=rate, preview=preview, yes=yes):
                return
    elif preview:
        remote.screen.tell(plan.describe(), f"{show_count(plan.count, 'message')} were found when it was begun")
        return
    _send(remote, plan, target["id"], to, rate)


def _require(lake: Lake, table: str) -> None:
    for wanted in (table, EVENTS):
        if not lake.has(wanted):
            raise Failure(f"{lake.root / wanted} holds nothing; fill it with `courier pipeline run`", Exit.NOT_FOUND)


def _find(
    session: "SparkSession",
    lake: Lake,
    plan: Plan,
    screen: Screen,
    *,
    to: str,
    rate: int | None,
    preview: bool,
    yes: bool,
) -> bool:
    """Look for the messages, show them and ask; then write them down. Whether they shall be sent."""
    from couriermq.spark import replay as job  # noqa: PLC0415 - loads Spark

    order = plan.order
    files = {table: [str(path) for path in lake.files(table)] for table in (order.table, EVENTS)}
    try:
        with screen.busy("looking for the messages"):
            messages = job.chosen(session, files, lake.root, table=order.table, where=order.where, tenant=order.tenant)
            found, count, sample = job.preview(messages, table=order.table)
        _show(screen, found, count, sample, to, only=preview)
        if preview or not count:
            return False
        screen.confirm(f"send {show_count(count, 'message')} to {to}?", yes=yes)
        with screen.busy("writing them down"):
            plan.write(
                lambda folder: job.write_down(messages, count, folder, table=order.table),
                portion=min(PORTION, rate or PORTION),
            )
    except job.ReplayError as error:
        raise Failure(str(error)) from None
    return True


def _show(screen: Screen, found: int, count: int, sample: list[Json], to: str, *, only: bool) -> None:
    if screen.json:
        if only or not count:
            shown = [row | {"body": _preview(row["body"])} for row in sample]
            screen.document({"found": found, "with_body": count, "to": to, "sample": shown})
        return
    screen.note(f"found {show_count(count, 'message')} to send to {to}" + ("" if count else ": nothing to do"))
    if found > count:
        screen.note(f"and {show_count(found - count, 'message')} whose bodies are not kept: those are left out")
    rows = [
        [row["message_id"], row["queue"], show_instant(row["sent_at"]), show_size(row["size"]), _preview(row["body"])]
        for row in sample
    ]
    if rows:
        screen.table(_COLUMNS, rows)


def _preview(body: bytes) -> str:
    return bytes(body[:60]).decode(errors="replace")


def _send(remote: Remote, plan: Plan, queue: str, to: str, rate: int | None) -> None:
    """Publish portion by portion, beginning after the last that was published."""
    done = published(remote, queue, plan.series)
    sent = 0
    with Progress("replaying", unit="message", total=plan.count, json=remote.json) as progress:
        progress.reach(min(done * plan.portion, plan.count))
        for number, portion in _at_rate(plan.portions(after=done), rate):
            sent += publish(remote, queue, plan.series, number, portion)
            progress.advance(len(portion))
    plan.finish(SystemClock().now())
    document = {"sent": sent, "messages": plan.count, "to": to, "series": plan.series}
    before = f"; {show_count(plan.count - sent, 'message')} had been sent before" if sent < plan.count else ""
    remote.screen.tell(document, f"sent {show_count(sent, 'message')} to {to}{before}")


def _at_rate(portions: Iterator[tuple[int, list[Json]]], rate: int | None) -> Iterator[tuple[int, list[Json]]]:
    """The same portions, none earlier than those before it allow."""
    began_s, sent = time.monotonic(), 0
    for number, portion in portions:
        if rate is not None:
            time.sleep(max(0.0, began_s + sent / rate - time.monotonic()))
        yield number, portion
        sent += len(portion)
