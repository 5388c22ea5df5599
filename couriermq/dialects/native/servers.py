"""The server itself: what it is, how it does, and the settings in force."""

import asyncio
from collections.abc import Iterator

import msgspec

from couriermq import __version__
from couriermq.config import KEYS, Settings
from couriermq.core.errors import Forbidden
from couriermq.core.lanes import lane_of
from couriermq.dialects.native.operations import PREFIX, Operation, ok
from couriermq.dialects.native.wire import servers as wire
from couriermq.monitor.node import free_bytes, shown_setting, size_of
from couriermq.web.call import Call, Reply


async def read_server(call: Call) -> Reply:
    if not call.principal.is_root:
        raise Forbidden("see", "the server; that needs the root credential")
    services, node = call.services, call.services.monitor.node
    data = services.settings.data
    data_bytes = await asyncio.to_thread(size_of, data)
    freshness = await asyncio.to_thread(services.lake.freshness)
    return ok(
        wire.ServerState(
            version=__version__,
            started_at=node.started_at,
            nodes=[_node(call)],
            store=_store(call),
            disk=wire.DiskState(free_bytes=free_bytes(data), data_bytes=data_bytes, journal_bytes=None),
            archive=_archive(call),
            lake=wire.LakeState(max(freshness.offsets.values())) if freshness and freshness.offsets else None,
            cursors=await _cursors(call),
            stream_count=services.monitor.streams.count,
            settings=list(_settings(services.settings)),
        )
    )


def _node(call: Call) -> wire.ServerNode:
    node = call.services.monitor.node
    return wire.ServerNode(
        id=call.services.sessions.store_id,
        is_this=True,
        duties=node.duties,
        connection_count=len(node.traffic.connections),
        in_hand_count=len(node.traffic.in_hand),
    )


def _store(call: Call) -> wire.StoreState:
    node = call.services.monitor.node
    pace = node.pace()
    return wire.StoreState(
        kind="sqlite" if call.services.settings.store == "sqlite:" else "postgres",
        commits_per_second=pace.commits_per_second,
        events_per_second=pace.events_per_second,
        batch_mean=pace.batch_mean,
        sync_ms=wire.SyncTimes(pace.sync_p50_ms, pace.sync_p99_ms),
        unavailable_reason=node.store.unavailable_reason,
    )


def _archive(call: Call) -> wire.ArchiveState | None:
    archive = call.services.history.past_of(0).archive
    if archive is None:
        return None
    segments = archive.segments
    return wire.ArchiveState(
        sealed_until=segments[-1].end if segments else 0,
        segment_count=len(segments),
        byte_count=sum(segment.size for segment in segments),
    )


async def _cursors(call: Call) -> list[wire.CursorState]:
    spans = await call.services.history.spans()
    found = []
    for cursor in call.services.cursors.all():
        span = spans.get(lane_of(cursor.offset))
        behind = span.next - cursor.offset if span is not None else 0
        found.append(wire.CursorState(cursor.name, cursor.offset, cursor.changed_at, max(0, behind)))
    return found


def _settings(settings: Settings) -> Iterator[wire.SettingState]:
    default = Settings()
    for key in KEYS:
        value = _value(settings, key)
        source = "default" if value == _value(default, key) else None
        yield wire.SettingState(key, shown_setting(key, value), source)


def _value(settings: msgspec.Struct, key: str) -> object:
    found: object = settings
    for name in key.split("."):
        found = getattr(found, name)
    return found


OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX + "/server",
        handler=read_server,
        tag="Server",
        summary="See how the server does",
        description="The process that answers, its store, disk, archive and cursors, and the settings in force without"
        " secrets.",
        needs="root",
        gives={200: wire.ServerState},
    ),
)
