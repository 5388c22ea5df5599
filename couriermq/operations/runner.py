"""Carries operations out, and takes up those that were interrupted.

An operation is a record from its start to its end, so a restart goes on where it was, and on PostgreSQL another node
does where its node is gone.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock, mint_id
from couriermq.core import limits
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import CourierError, InUse, PublicationNotFound, RecordNotFound, Unavailable
from couriermq.core.model import SECOND, Json, Message, Queue, Record
from couriermq.journal.history import History
from couriermq.operations.model import Operation, Preview, State, Verb, Where
from couriermq.operations.portions import PORTION_COUNT, Portion, Portions, draft_of
from couriermq.operations.rights import lost_right
from couriermq.stages import Stages

RECORD = "operation"
LOOK_MS = 5 * SECOND
SAVE_MS = 2 * SECOND
STALE_MS = 30 * SECOND
"""An operation of which another node has written nothing for this long has lost its node."""
ALIVE_MS = 10 * SECOND
"""How often an operation that keeps to a slow rate says that its node lives."""
RUNNING_COUNT = 10
"""Operations of a tenant that may run at one time."""
KEPT_COUNT = 100
"""Operations of a tenant that are remembered."""
PREVIEW_COUNT = 100_000
"""Messages that a preview looks at."""
EXAMPLE_COUNT = 5

log = logging.getLogger(__name__)


class Operations:
    """Starts operations; `run` it as a task. Rights are checked before it is asked."""

    def __init__(
        self, broker: Broker, catalog: Catalog, clock: Clock, stages: Stages, history: History, *,
        holds: Callable[[str], bool], shared: bool,
    ) -> None:  # fmt: skip
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._stages = stages
        self._portions = Portions(broker, history)
        self._holds = holds
        self._shared = shared
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running: dict[str, Operation] = {}
        self._starting = asyncio.Lock()
        self._is_open = True

    # -- asking -----------------------------------------------------------------------------------------------

    async def start(
        self, queue: Queue, target: Queue | None, verb: Verb, where: Where, *,
        per_second: float | None, principal: str, credential: str | None = None,
    ) -> Operation:  # fmt: skip
        """Begin one; with a credential, it stops when that has lost the rights to it."""
        operation = await self._new(queue, target, verb, where, per_second=per_second, principal=principal)
        operation.credential = credential
        if verb is not Verb.REPLAY:
            operation.total_count = (await self._broker.counters(queue)).total_count
        async with self._starting:
            running = [one for one in self.all(queue.tenant) if one.state is State.RUNNING]
            if len(running) >= RUNNING_COUNT:
                raise InUse("the tenant's operations", f"{RUNNING_COUNT} that run; wait for one to end, or cancel one")
            await self._put(queue.tenant, operation)
        await self._forget_oldest(queue.tenant)
        self._begin(queue.tenant, operation)
        return operation

    async def _new(
        self, queue: Queue, target: Queue | None, verb: Verb, where: Where, *, per_second: float | None, principal: str
    ) -> Operation:
        return Operation(
            id=mint_id(self._clock),
            verb=verb,
            queue_id=queue.id,
            target_id=None if target is None else target.id,
            where=where,
            per_second=per_second,
            principal=principal,
            started_at=self._clock.now() + 1,  # what came in within this millisecond is part of it
            last_seq=await self._broker.last_seq(queue),
        )

    async def preview(self, queue: Queue, verb: Verb, where: Where) -> Preview:
        """What an operation would be about; nothing is done."""
        operation = await self._new(queue, None, verb, where, per_second=None, principal="")
        examples: list[Message] = []
        matched = looked = bodiless = 0
        after: str | None = None
        while looked < PREVIEW_COUNT:
            portion = await self._portions.read(operation, queue, after, limit=1_000)
            matched += len(portion.messages)
            looked += portion.looked_count
            bodiless += portion.without_body_count
            examples += portion.messages[: EXAMPLE_COUNT - len(examples)]
            after = portion.next
            if after is None:
                break
        return Preview(
            matched_count=matched,
            looked_count=looked,
            without_body_count=bodiless,
            complete=after is None,
            examples=examples,
        )

    def all(self, tenant: str) -> list[Operation]:
        """Those of a tenant, the newest first."""
        records = self._catalog.records(RECORD, tenant)
        return [self._running.get(record.id) or _read(record) for record in reversed(records)]

    def one(self, tenant: str, operation_id: str) -> Operation:
        record = self._catalog.record(RECORD, tenant, operation_id)
        return self._running.get(operation_id) or _read(record)

    async def cancel(self, tenant: str, operation_id: str) -> Operation:
        """What is done stays done; the node that carries it out stops before its next portion."""
        operation = self.one(tenant, operation_id)
        if operation.state is State.RUNNING:
            operation.state, operation.ended_at = State.CANCELLED, self._clock.now()
            await self._put(tenant, operation)
        return operation

    # -- doing ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take up what was interrupted, until cancelled."""
        try:
            while True:
                for tenant in self._catalog.tenants():
                    for record in self._catalog.records(RECORD, tenant.id):
                        if self._is_abandoned(record):
                            self._begin(tenant.id, _read(record))
                await self._clock.sleep_until(self._clock.now() + LOOK_MS)
        finally:
            self.stop()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def stop(self) -> None:
        """Leave what is unfinished to the next start, or to another node."""
        self._is_open = False
        for task in self._tasks.values():
            task.cancel()

    def _is_abandoned(self, record: Record) -> bool:
        if record.id in self._tasks or _read(record).state is not State.RUNNING:
            return False
        is_stale = self._clock.now() >= record.changed_at + STALE_MS
        return not self._shared or (is_stale and self._holds(UPKEEP))

    def _begin(self, tenant: str, operation: Operation) -> None:
        if operation.id not in self._tasks and self._is_open:
            self._running[operation.id] = operation
            task = self._tasks[operation.id] = asyncio.create_task(self._carry_out(tenant, operation))
            task.add_done_callback(lambda done: self._ended(operation, done))

    def _ended(self, operation: Operation, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(operation.id, None)
        self._running.pop(operation.id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("operation %s waits: %s", operation.id, error)

    async def _carry_out(self, tenant: str, operation: Operation) -> None:
        try:
            await self._portion_by_portion(tenant, operation)
        except Unavailable:
            raise  # the store will be well again, and the operation is taken up
        except CourierError as error:
            self._end(operation, State.FAILED, str(error))
        if self._is_known(tenant, operation):
            await self._put(tenant, operation)

    def _end(self, operation: Operation, state: State, error: str | None = None) -> None:
        if operation.state is State.RUNNING:
            operation.state, operation.error, operation.ended_at = state, error, self._clock.now()

    async def _portion_by_portion(self, tenant: str, operation: Operation) -> None:
        await self._settle_last_portion(tenant, operation)
        saved_at = self._clock.now()
        while not operation.is_last and self._goes_on(tenant, operation):
            queue = self._catalog.queue_by_id(tenant, operation.queue_id)
            limit = PORTION_COUNT if operation.per_second is None else min(PORTION_COUNT, int(operation.per_second) + 1)
            portion = await self._portions.read(operation, queue, operation.after, limit=limit)
            done = await self._do(tenant, operation, queue, portion)
            operation.done_count += done
            operation.failed_count += len(portion.messages) - done + portion.without_body_count
            operation.looked_count += portion.looked_count
            operation.after, operation.is_last = portion.next, portion.next is None
            if self._clock.now() >= saved_at + SAVE_MS and self._goes_on(tenant, operation):
                saved_at = self._clock.now()
                await self._put(tenant, operation)
            await self._pause(tenant, operation, len(portion.messages))
        self._end(operation, State.DONE)

    async def _pause(self, tenant: str, operation: Operation, count: int) -> None:
        """Keep to the rate, in short steps, so that its end is heard, and let other nodes know that this one lives."""
        if operation.per_second is None:
            await asyncio.sleep(0)
            return
        saved_at = self._clock.now()
        until = saved_at + int(count / operation.per_second * 1_000)
        while self._goes_on(tenant, operation) and self._clock.now() < until:
            if self._clock.now() >= saved_at + ALIVE_MS:
                saved_at = self._clock.now()
                await self._put(tenant, operation)
            await self._clock.sleep_until(min(until, self._clock.now() + SECOND))

    def _goes_on(self, tenant: str, operation: Operation) -> bool:
        """Whether nobody has cancelled it, here or at another node, and who started it still may."""
        try:
            state = _read(self._catalog.record(RECORD, tenant, operation.id)).state
        except RecordNotFound:
            state = State.CANCELLED
        if state is not State.RUNNING and operation.state is State.RUNNING:
            operation.state, operation.ended_at = state, self._clock.now()
        if operation.state is State.RUNNING and (reason := self._lost_right(tenant, operation)) is not None:
            self._end(operation, State.CANCELLED, reason)
        return operation.state is State.RUNNING

    def _lost_right(self, tenant: str, operation: Operation) -> str | None:
        if operation.credential is None:
            return None
        queue, target = self._catalog.queue_by_id(tenant, operation.queue_id), self._target(tenant, operation)
        credential = self._catalog.credential_of_id(operation.credential)
        return lost_right(credential, operation.where, queue, target, now=self._clock.now())

    async def _do(self, tenant: str, operation: Operation, queue: Queue, portion: Portion) -> int:
        """Do it to a portion; returns to how many messages it was done."""
        seqs = [message.seq for message in portion.messages]
        if not seqs:
            return 0
        by, target = operation.principal, self._target(tenant, operation)
        match operation.verb:
            case Verb.REMOVE:
                return len((await self._broker.remove(queue, seqs, principal=by)).gone)
            case Verb.REDRIVE:
                return await self._broker.redrive(queue, seqs=seqs, target=target, principal=by)
            case Verb.MOVE:
                assert target is not None
                return await self._broker.move(queue, target, seqs=seqs, principal=by)
        return await self._send(tenant, operation, target or queue, portion)

    def _target(self, tenant: str, operation: Operation) -> Queue | None:
        return None if operation.target_id is None else self._catalog.queue_by_id(tenant, operation.target_id)

    # -- sending exactly once ---------------------------------------------------------------------------------

    async def _send(self, tenant: str, operation: Operation, target: Queue, portion: Portion) -> int:
        """Stage copies, write down where the portion ends, and publish them under its number."""
        drafts = [draft_of(message) for message in portion.messages]
        good = [draft for draft in drafts if limits.check_draft(draft, target) is None]
        if not good:
            return 0
        operation.number += 1
        operation.stage = f"{operation.id}-{operation.number}-{mint_id(self._clock)}"
        operation.next = portion.next
        await self._stages.stage(target, operation.stage, 0, good, principal=operation.principal)
        await self._put(tenant, operation)
        series = f"operation-{operation.id}"
        await self._stages.publish(target, series, operation.number, [operation.stage], principal=operation.principal)
        operation.stage = None
        return len(good)

    async def _settle_last_portion(self, tenant: str, operation: Operation) -> None:
        """After a restart: the portion that was written down was published, or it is read again."""
        if operation.stage is None:
            return
        target = self._target(tenant, operation) or self._catalog.queue_by_id(tenant, operation.queue_id)
        try:
            published = await self._stages.publication(target, f"operation-{operation.id}")
        except PublicationNotFound:
            published = None
        if published is not None and published.number >= operation.number:
            operation.done_count += published.count
            operation.after, operation.is_last = operation.next, operation.next is None
        else:
            await self._stages.drop(target, [operation.stage])
            operation.number -= 1
        operation.stage = None

    # -- records ----------------------------------------------------------------------------------------------

    def _is_known(self, tenant: str, operation: Operation) -> bool:
        return any(record.id == operation.id for record in self._catalog.records(RECORD, tenant))

    async def _put(self, tenant: str, operation: Operation) -> None:
        def renew(record: Record | None) -> Json:
            """Another node may have cancelled it meanwhile."""
            if record is not None and (known := _read(record)).state is State.CANCELLED:
                operation.state, operation.ended_at = known.state, known.ended_at
            return msgspec.to_builtins(operation)

        await self._catalog.put_record(RECORD, tenant, renew, record_id=operation.id, principal=operation.principal)

    async def _forget_oldest(self, tenant: str) -> None:
        records = self._catalog.records(RECORD, tenant)
        ended = [record for record in records if _read(record).state is not State.RUNNING]
        for record in ended[: max(0, len(records) - KEPT_COUNT)]:
            await self._catalog.delete_record(RECORD, tenant, record.id, principal="courier")


def _read(record: Record) -> Operation:
    return msgspec.convert(record.document, Operation)
