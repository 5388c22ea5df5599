"""`courier erase`."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from couriermq.cli.client import route
from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.data import Config, Data, LakePlace, read_settings
from couriermq.cli.erasure_receipt import Note, Receipt, begin
from couriermq.cli.exits import Exit, Failure, usage
from couriermq.cli.lakes import only_writer
from couriermq.cli.live import remove_live
from couriermq.cli.options import Duration, Yes, read_attribute
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_count
from couriermq.clock import SystemClock
from couriermq.config import Settings
from couriermq.core.lanes import lane_named, lane_of
from couriermq.journal.place import LocalPlace, place_of
from couriermq.journal.segments import Segment, chain
from couriermq.lake.blanking import HIDDEN, MARK, Found, Wanted, hash_of, look_for
from couriermq.lake.tables import Lake

if TYPE_CHECKING:
    from couriermq.lake.erasing import Rewritten

Json = dict[str, Any]

PAGE = 1_000
POLL_S = 2.0
RECEIPTS = "erasures"


def erase(
    *,
    message: Annotated[str | None, Parameter(metavar="ID")] = None,
    attribute: Annotated[str | None, Parameter(alias="-a", metavar="NAME=VALUE")] = None,
    queue: Annotated[str | None, Parameter(metavar="QUEUE")] = None,
    wait: Duration = 0,
    receipt: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    yes: Yes = False,
    data: Data = None,
    lake: LakePlace = None,
    config: Config = None,
    remote: Remote = REMOTE,
) -> int:
    """Remove messages, by their id or by an attribute, from queues, archive and tables; a receipt says what was done.

    Rows stay where they are, with their offsets and sizes, but without id, body and attributes. Run it on the machine
    that has the data directory and the lake, while no pipeline is at work there. What the journal has not sealed yet
    cannot be erased: the exit code is then 1, and the same command finishes later, or waits.

    Parameters
    ----------
    message
        The messages of this id.
    attribute
        The messages that were sent with this attribute.
    queue
        Only messages that were sent to this queue.
    wait
        Wait so long for the journal to be sealed, such as 10m.
    receipt
        Where to write the receipt. [default: erasures/<instant>.json in the data directory]
    """
    wanted = _wanted(remote, message, attribute, queue)
    settings = read_settings({"data": data, "lake": lake}, config)
    journal = remote.client.get(route("journal"))
    if isinstance(journal["next"], str):
        raise Failure("erase needs root's token: it compares the journal's own numbers with the archive's", Exit.DENIED)
    remote.screen.confirm("remove these messages from queues, archive and tables for good?", yes=yes)
    done = Receipt(
        erased_at=SystemClock().now(),
        store=journal["store"],
        tenant=remote.tenant,
        queue=wanted.queue,
        asked_sha256=hash_of(f"{message}\n{attribute}"),
    )
    with only_writer(settings.lake_place):
        note = Note(done, begin(done, receipt, settings.data / RECEIPTS))
        try:
            _finish_rebuild(settings.lake_place)
            for count in remove_live(remote, wanted):
                done.live_removed += count
                note.soon()
            _erase_patiently(remote, settings, wanted, done, note, wait_s=wait / 1_000)
            if not done.pending_offsets and not done.replays:
                done.complete, done.ids_sha256 = True, []
        finally:
            note.now()
    return _tell(remote, done)


def _wanted(remote: Remote, message: str | None, attribute: str | None, queue: str | None) -> Wanted:
    if (message is None) == (attribute is None):
        raise usage("say which messages: either --message ID or --attribute NAME=VALUE")
    name = None if queue is None else str(remote.client.get(remote.queue(queue))["name"])
    pair = None if attribute is None else read_attribute(attribute)
    return Wanted(tenant=remote.tenant, message_id=message, attribute=pair, queue=name)


# -- files ----------------------------------------------------------------------------------------------------


def _finish_rebuild(lake: Path) -> None:
    """Tables that are whole but not in their place yet would come back later with all that they hold."""
    if (lake / "_rebuild" / "_complete").exists():
        from couriermq.spark.rebuilding import finish  # noqa: PLC0415 - loads Spark

        finish(lake)


def _erase_patiently(
    remote: Remote, settings: Settings, wanted: Wanted, done: Receipt, note: Note, *, wait_s: float
) -> None:
    """Again until the journal has sealed all that there is to erase, or for so long."""
    deadline_s = time.monotonic() + wait_s
    found = look_for(wanted)  # for all rounds: what one of them has blanked tells the next no id
    found.seqs.update(done.seqs)
    found.hashes.update(done.ids_sha256)
    while True:
        _erase(remote, settings, wanted, found, done, note)
        note.now()
        if not done.pending_offsets or time.monotonic() >= deadline_s:
            return
        _write_on(remote)
        time.sleep(POLL_S)


def _erase(remote: Remote, settings: Settings, wanted: Wanted, found: Found, done: Receipt, note: Note) -> None:
    from couriermq.lake import erasing  # noqa: PLC0415 - loads pyarrow

    place = place_of(settings.archive) if settings.archive else LocalPlace(settings.data / "archive")
    tables = Lake(settings.lake_place)
    sealed = erasing.sealed_segments(place)
    erasing.clear_drafts(tables)
    with Progress("erasing", unit="file", json=remote.json) as progress:
        for _ in erasing.look_through(place, sealed, tables, wanted, found):
            progress.advance(messages=len(found.seqs))
        done.seqs, done.ids_sha256 = sorted(found.seqs), sorted(found.hashes | set(map(hash_of, found.ids)))
        note.now()
        try:
            for rewritten in erasing.erase_segments(place, sealed, wanted, found):
                progress.advance()
                _add(rewritten, done.archive, note)
            for table in erasing.TABLES:
                files = done.tables.setdefault(table, [])
                for rewritten in erasing.erase_table(tables, table, wanted, found):
                    _add(rewritten, files, note)
                progress.advance()
        except erasing.Busy as busy:
            raise Failure(str(busy), Exit.UNAVAILABLE) from None
        done.pending_offsets = erasing.ranges(_pending(remote, chain(sealed), wanted, found))
    done.replays = _replays(tables, done.seqs)


def _add(rewritten: "Rewritten | None", files: list[Any], note: Note) -> None:
    if rewritten is not None:
        files.append(rewritten)
        note.soon()


def _write_on(remote: Remote) -> None:
    """The embedded store keeps its newest commit even when that is sealed: an empty change takes its place."""
    queues = remote.every(remote.path("queues"), "queues", limit=1)
    if queues:
        remote.client.patch(remote.queue(queues[0]["id"]), {})


def _pending(remote: Remote, sealed: Sequence[Segment], wanted: Wanted, found: Found) -> list[int]:
    """Offsets of events that the server still tells of the messages, from each lane's newest segments on."""
    pending: list[int] = []
    for lane in remote.client.get(route("journal"))["lanes"]:
        newest = [segment.start for segment in sealed if lane_of(segment.start) == lane_named(lane["lane"])][-2:]
        pending += _pending_from(remote, max([lane["oldest"], *newest[:1]]), wanted, found)
    return pending


def _pending_from(remote: Remote, start: int, wanted: Wanted, found: Found) -> list[int]:
    pending: list[int] = []
    while True:
        query: Json = {"from": start, "limit": PAGE, "tenant": wanted.tenant}
        page = remote.client.get(route("journal", "events"), query)
        spoken = [event for event in page["events"] if _speaks_of(event, wanted, found)]
        pending += [event["offset"] for event in spoken]
        found.copies.update(event["seq"] for event in spoken if _is_hidden(event) and event["seq"] is not None)
        if page["next"] == start:
            return pending
        start = page["next"]


def _speaks_of(event: Json, wanted: Wanted, found: Found) -> bool:
    if (event["message_id"] or MARK).startswith(MARK):
        return False
    if event["seq"] is not None and event["seq"] in found.all_seqs:
        return True
    if found.has_id(event["message_id"]) and (_is_hidden(event) or event["seq"] is None):
        return True  # a copy for a listener, or the exchange that the message came through
    if wanted.queue is not None and event["queue"] != wanted.queue:
        return False
    if wanted.message_id is not None:
        return bool(event["message_id"] == wanted.message_id)
    assert wanted.attribute is not None
    name, value = wanted.attribute
    attributes = (event["detail"] or {}).get("attributes") or {}
    return name in attributes and attributes[name] == value


def _is_hidden(event: Json) -> bool:
    return (event["queue"] or "").startswith(HIDDEN)


def _replays(lake: Lake, seqs: list[int]) -> list[str]:
    """Replays that were begun and still have such messages to send."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    found = set()
    for path in (lake.root / "_replays").glob("*/*.parquet"):
        if not set(pq.read_table(path, columns=["seq"]).column("seq").to_pylist()).isdisjoint(seqs):
            found.add(path.parent.name)
    return sorted(found)


# -- the receipt ----------------------------------------------------------------------------------------------


def _tell(remote: Remote, done: Receipt) -> int:
    tables = sum(len(files) for files in done.tables.values())
    words = (
        f"erased {show_count(len(done.seqs), 'message')}: {done.live_removed} from queues, rows in"
        f" {show_count(len(done.archive), 'segment')} and in {show_count(tables, 'file')} of tables"
    )
    remote.screen.tell(msgspec.to_builtins(done), words)
    if done.pending_offsets:
        count = sum(last - first + 1 for first, last in done.pending_offsets)
        remote.screen.warn(
            f"the journal has not sealed {show_count(count, 'event')} of them yet; give the same command again in a"
            " few minutes, or --wait 10m"
        )
    if done.replays:
        remote.screen.warn(f"an unfinished replay still holds some of them: finish {', '.join(done.replays)} first")
    return Exit.OK if done.complete else Exit.FAILED
