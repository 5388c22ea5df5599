"""What a query remembers of the store that it reads: its id and its incarnation, beside the offsets in its checkpoint.

After a restore a query may have read events that the store has lost. It stops, unless it is told to go on and has read
nothing of what was lost.
"""

from collections.abc import Mapping
from typing import Any

from couriermq.core.jumps import is_lost
from couriermq.spark.journal import Journal, JournalError

STORE = "store"
"""The key beside those of the lanes."""


class OtherIncarnation(JournalError):
    """The journal is not the one that was read before; the text says what to do."""


def places_of(kept: Mapping[str, Any]) -> dict[str, Any]:
    """What a checkpoint says without the stamp."""
    return {name: place for name, place in kept.items() if name != STORE}


def stamped(places: Mapping[str, Any], stamp: str) -> dict[str, Any]:
    return {**places_of(places), STORE: stamp}


def check(journal: Journal, kept: Mapping[str, Any], *, advice: str, accept: bool = False) -> str:
    """The stamp of the journal; raises OtherIncarnation where a checkpoint has another one.

    One without a stamp is from before there were any, and is taken as it is. With `accept` a query goes on in another
    incarnation of its store if none of its offsets is of an event that was lost.
    """
    present = journal.stamp()
    known = kept.get(STORE)
    if known is None or known == present:
        return present
    _refuse_other_store(str(known), present, advice)
    jumps, places = journal.jumps(), places_of(kept).values()
    is_safe = bool(places) and all(isinstance(place, int) and not is_lost(jumps, place) for place in places)
    if accept and is_safe:
        return present
    if is_safe:
        advice = f"set acceptIncarnation to true to go on, for it has read nothing that was lost, or {advice}"
    raise OtherIncarnation(_restored(str(known), present, advice))


def check_job(present: str, kept: Mapping[str, Any], *, advice: str) -> None:
    """The same for claims, whose numbers mean something else after a restore in any case."""
    known = kept.get(STORE)
    if known is not None and known != present:
        _refuse_other_store(known, present, advice)
        raise OtherIncarnation(_restored(known, present, advice))


def _refuse_other_store(known: str, present: str, advice: str) -> None:
    store, now = known.partition("/")[0], present.partition("/")[0]
    if store != now:
        raise OtherIncarnation(f"the checkpoint is of store {store}, and this is store {now}; {advice}")


def _restored(known: str, present: str, advice: str) -> str:
    before, now = known.partition("/")[2], present.partition("/")[2]
    return (
        f"the store was restored from a copy: the checkpoint is of its incarnation {before}, and this is {now}, which"
        f" may have lost what the query has read; {advice}"
    )
