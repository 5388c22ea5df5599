"""How messages flow through a tenant, on the wire."""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from couriermq.core.model import Rule
from couriermq.dialects.native.wire.overview import PerSecond


class MapNode(msgspec.Struct, kw_only=True):
    """Something that messages come from, pass, or go to; figures are there for queues, `state` for listeners."""

    id: str
    kind: Literal["queue", "exchange", "listener", "principal"]
    name: str
    flags: list[str] = []
    ready_count: int | UnsetType = UNSET
    delayed_count: int | UnsetType = UNSET
    leased_count: int | UnsetType = UNSET
    per_second: PerSecond | UnsetType = UNSET
    state: str | UnsetType = UNSET


class MapEdge(msgspec.Struct, kw_only=True):
    """A way from one node to another; it is `stuck` where messages wait at its start and none passes."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    kind: Literal["binding", "dead_letters", "delivery", "sends", "receives"]
    rules: tuple[Rule, ...] | UnsetType = UNSET
    per_second: float | None = None
    stuck: bool = False


class FlowMap(msgspec.Struct):
    """All of it, or its first part where `truncated`."""

    at: int
    nodes: list[MapNode]
    edges: list[MapEdge]
    truncated: bool
