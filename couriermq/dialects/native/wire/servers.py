"""The server itself on the wire."""

from typing import Literal

import msgspec

from couriermq.dialects.native.wire.events import Cursor


class ServerNode(msgspec.Struct, kw_only=True):
    """This process: the duties that it holds, its connections and the requests that it answers now."""

    id: str
    is_this: bool
    duties: list[str]
    connection_count: int
    in_hand_count: int


class SyncTimes(msgspec.Struct):
    """Within how many milliseconds half of the syncs, and all but one in a hundred, were done; null is longer."""

    p50: float | None
    p99: float | None


class StoreState(msgspec.Struct, kw_only=True):
    """Rates are means since the last look."""

    kind: Literal["sqlite", "postgres"]
    commits_per_second: float
    events_per_second: float
    batch_mean: float
    sync_ms: SyncTimes
    unavailable_reason: str | None


class DiskState(msgspec.Struct, kw_only=True):
    """Of the data directory."""

    free_bytes: int | None
    data_bytes: int
    journal_bytes: int | None


class ArchiveState(msgspec.Struct, kw_only=True):
    """Events below `sealed_until` are in segments."""

    sealed_until: int
    segment_count: int
    byte_count: int


class LakeState(msgspec.Struct):
    """How far the tables of the pipeline go."""

    offset: int


class CursorState(Cursor):
    """The same with how many events it holds back."""

    behind_count: int


class SettingState(msgspec.Struct):
    """A setting; `source` is default where it has its default, else null."""

    key: str
    value: str | int | float | bool | None
    source: str | None


class ServerState(msgspec.Struct, kw_only=True):
    version: str
    started_at: int
    nodes: list[ServerNode]
    store: StoreState
    disk: DiskState
    archive: ArchiveState | None
    lake: LakeState | None
    cursors: list[CursorState]
    stream_count: int
    settings: list[SettingState]
