"""What a store of several databases consists of, and queues on their way between them."""

from enum import StrEnum

import msgspec

from couriermq.core.jumps import Jump


class ShardState(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"
    """It gets no new queues, and those it has are moved away one by one."""
    REMOVED = "removed"
    """It has no database any more. Its number is not given again, for its events are still in the archive."""


class Shard(msgspec.Struct, frozen=True, kw_only=True):
    """One database of a store. Number 0, the home, also holds the control plane."""

    number: int
    name: str
    url: str
    weight: int = 1
    """Its share of new queues, against the weights of the others; 0 means none."""
    state: ShardState = ShardState.ACTIVE
    end: int = 0
    """The offset that the first lane of its journal ended with when it was removed."""
    other_ends: tuple[int, ...] = ()
    """The same of its other lanes."""
    jumps: tuple[Jump, ...] = ()
    """Where its offsets had jumped by then."""

    @property
    def is_removed(self) -> bool:
        return self.state is ShardState.REMOVED

    @property
    def share(self) -> int:
        return self.weight if self.state is ShardState.ACTIVE else 0


HOME = Shard(number=0, name="home", url="")


class RelocationState(StrEnum):
    COPYING = "copying"
    FROZEN = "frozen"
    """The queue waits for the last changes to be copied; for callers it is unavailable for a moment."""
    CLEANING = "cleaning"
    """The queue lives in its new place; the old copy is being removed."""
    UNDOING = "undoing"
    DONE = "done"
    FAILED = "failed"

    @property
    def is_over(self) -> bool:
        return self in {RelocationState.DONE, RelocationState.FAILED}


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with the queues of its listeners, on its way from one shard to another."""

    tenant: str
    queue_id: str
    queue: str
    source: int
    target: int
    state: RelocationState = RelocationState.COPYING
    copied_count: int = 0
    total_count: int = 0
    runner: str = ""
    """Which run of which node does it; another one that takes over writes its own here first."""
    beat: int = 0
    frozen_ms: int | None = None
    """How long callers had to wait."""
    reason: str | None = None
    started_at: int = 0
    changed_at: int = 0


class ShardFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A shard as an operator sees it."""

    shard: Shard
    queue_count: int
    trouble: str | None = None
    """Why it takes no messages now, if so."""
