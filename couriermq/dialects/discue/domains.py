"""Domains: who asks for one proves that he controls it by serving a file."""

import asyncio
from collections.abc import Callable

import msgspec

from couriermq.clock import Clock, mint_id
from couriermq.core.errors import AlreadyExists, CourierError
from couriermq.core.model import Json, Record
from couriermq.dialects.discue import limits, rights
from couriermq.dialects.discue.access import tenant_of
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.rights import Right
from couriermq.dialects.discue.wire import domains as wire
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.domains import Domain
from couriermq.dialects.discue.wire.reading import read_page
from couriermq.web.call import Call, Reply


class Domains:
    """The handlers, and the challenges that are under way."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}

    async def list_domains(self, call: Call) -> Reply:
        rights.require_some(call, rights.READ_DOMAINS)
        path = path_of("domains")
        visible = [record for record in _records(call) if rights.allows(call, rights.READ_DOMAINS, record.id)]
        shown, headers = cut(call, visible, read_page(call), path)
        children = [(wire.domain_of(record).alias, wire.domain_path(record)) for record in shown]
        written = [wire.write_domain(record) for record in shown]
        return answer(call, {"domains": written}, path, children=children, headers=headers)

    async def create_domain(self, call: Call) -> Reply:
        rights.require(call, rights.CHANGE_DOMAINS)
        new = wire.read_new(call.body)
        domain = _challenged(
            Domain(
                alias=new.alias,
                hostname=new.hostname,
                port=new.port,
                file_name="",
                file_content="",
                created_at=0,
                expires_at=0,
            ),
            call.services.clock,
        )

        def free(present: Record | None) -> Json:
            _check_free(call, domain.alias)
            return msgspec.to_builtins(domain)

        return _written(
            call,
            await call.services.catalog.put_record(wire.RECORD, tenant_of(call), free, principal=call.principal.id),
        )

    async def get_domain(self, call: Call) -> Reply:
        """The domain, whose challenge is tried now unless it has been met, has expired or was tried just before."""
        record = _record(call, rights.READ_DOMAINS)
        await self._try(call, record)
        return _written(call, _record(call, rights.READ_DOMAINS))

    async def change_domain(self, call: Call) -> Reply:
        """Give it another alias; a challenge that has expired is replaced by a new one."""
        clock = call.services.clock

        def change(domain: Domain) -> Domain:
            alias = wire.read_alias(call.body, domain)
            if alias != domain.alias:
                _check_free(call, alias)
            changed = msgspec.structs.replace(domain, alias=alias)
            return _challenged(changed, clock) if _has_expired(changed, clock) else changed

        return _written(call, await _change(call, _record(call, rights.CHANGE_DOMAINS), change))

    async def delete_domain(self, call: Call) -> Reply:
        record = _record(call, rights.CHANGE_DOMAINS)
        await call.services.catalog.delete_record(record.kind, record.tenant, record.id, principal=call.principal.id)
        self._asked.pop(record.id, None)
        return answer(call, {}, wire.domain_path(record))

    # -- challenges -------------------------------------------------------------------------------------------

    async def _try(self, call: Call, record: Record) -> None:
        """Wait a moment for the challenge to be met; it goes on for whoever asks next."""
        domain, clock = wire.domain_of(record), call.services.clock
        if domain.verified_at is not None or _has_expired(domain, clock):
            return
        asking = self._asking.get(record.id)
        if asking is None:
            if clock.now() - self._asked.get(record.id, 0) < limits.CHALLENGE_AGAIN_MS:
                return
            self._asked[record.id] = clock.now()
            asking = self._asking[record.id] = asyncio.create_task(_challenge(call, record, domain))
            asking.add_done_callback(lambda _: self._asking.pop(record.id, None))
        await asyncio.wait([asking], timeout=limits.CHALLENGE_WAIT_SECONDS)


async def _challenge(call: Call, record: Record, domain: Domain) -> None:
    met = await call.services.deliveries.challenge(
        domain.hostname, domain.port, domain.path, domain.file_content, tenant=record.tenant
    )
    if not met:
        return

    def verified(present: Domain) -> Domain:
        is_same = present.file_content == domain.file_content
        return msgspec.structs.replace(present, verified_at=call.services.clock.now()) if is_same else present

    try:
        await _change(call, record, verified)
    except CourierError:
        return  # it was deleted meanwhile, or the store takes no writes: the next question tries again


def _challenged(domain: Domain, clock: Clock) -> Domain:
    """The domain with a fresh challenge."""
    now = clock.now()
    return msgspec.structs.replace(
        domain,
        file_name=f"{mint_id(clock)}.txt",
        file_content=mint_id(clock) + mint_id(clock),
        created_at=now,
        expires_at=now + limits.CHALLENGE_MS,
    )


def _has_expired(domain: Domain, clock: Clock) -> bool:
    return domain.verified_at is None and domain.expires_at <= clock.now()


# -- records --------------------------------------------------------------------------------------------------


def _records(call: Call) -> list[Record]:
    return call.services.catalog.records(wire.RECORD, tenant_of(call))


def _record(call: Call, right: Right) -> Record:
    rights.require(call, right, call.params["domain_id"])
    return call.services.catalog.record(wire.RECORD, tenant_of(call), call.params["domain_id"])


def _check_free(call: Call, alias: str) -> None:
    if any(wire.domain_of(record).alias == alias for record in _records(call)):
        raise AlreadyExists("domain", alias)


async def _change(call: Call, record: Record, change: Callable[[Domain], Domain]) -> Record:
    """Keep what a function makes of the domain as it stands when it is this change's turn."""
    return await call.services.catalog.change_record(
        record.kind,
        record.tenant,
        record.id,
        lambda document: msgspec.to_builtins(change(msgspec.convert(document, Domain))),
        principal=call.principal.id,
    )


def _written(call: Call, record: Record) -> Reply:
    return answer(call, {"domain": wire.write_domain(record)}, wire.domain_path(record))
