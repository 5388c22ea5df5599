"""Answers the fields of a query: accounts, and the groups of a dataset."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from graphql import FieldNode, FragmentSpreadNode, GraphQLResolveInfo, InlineFragmentNode, SelectionSetNode

from couriermq.core.errors import Forbidden, Invalid, TenantNotFound
from couriermq.core.limits import RESPONSE_BYTES
from couriermq.core.model import DAY, Action, Queue, Tenant
from couriermq.dialects.cloudflare.graphql.datasets import Dataset, sources, step_ms
from couriermq.dialects.cloudflare.graphql.rows import (
    INSTANTS,
    Group,
    Row,
    grouped,
    matches,
    ordered,
    read_instant,
    window,
    write_instant,
)
from couriermq.dialects.cloudflare.ids import account_id, id_of, queue_id
from couriermq.web.call import Call

ACCOUNTS = 20
GROUPS = 10_000
"""How many groups a dataset may give, and all datasets of a query together."""
VALUE_BYTES = 40
"""What a value is reckoned with, beside the name of its field."""
STEPS = 100_000
"""How many minutes or hours of queues a query may look at."""
LEAST_STEPS = 100
"""What a queue costs at least, however short the time."""
FILTER_PARTS = 100
ROWS_AT_ONCE = 500
"""How many rows the event loop compares with a filter in one go: 20 ms with as many conditions as a filter has."""
DEFAULT_MS = DAY

Info = GraphQLResolveInfo["Resolver"]
Answer = Callable[..., Coroutine[Any, Any, Any]]


class Resolver:
    """The context of one query: the call, and how much of its allowance is left."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.groups_left = GROUPS
        self.steps_left = STEPS
        self.bytes_left = RESPONSE_BYTES

    @staticmethod
    async def accounts(
        _: object, info: Info, where: Mapping[str, Any] | None = None, limit: object = None
    ) -> list[dict[str, str]]:
        """The accounts that the query names, or the caller's own."""
        call: Call = info.context.call
        wanted = where or {}
        tags = [wanted["accountTag"]] if wanted.get("accountTag") is not None else wanted.get("accountTag_in")
        if tags is None:
            if call.principal.tenant is None:
                raise Invalid("name the account: accounts(filter: {accountTag: …})")
            tags = [call.principal.tenant]
        if len(tags) > ACCOUNTS:
            raise Invalid(f"a query names at most {ACCOUNTS} accounts")
        tenants = [_tenant(call, str(tag)) for tag in tags]
        return [{"accountTag": account_id(tenant), "tenant": tenant.id} for tenant in tenants]

    @staticmethod
    def of(dataset: Dataset) -> Answer:
        """What resolves the field of a dataset."""

        async def groups(
            account: Mapping[str, str],
            info: Info,
            where: Mapping[str, Any] | None = None,
            limit: Any = None,
            orders: Sequence[str] | None = None,
        ) -> list[dict[str, Any]]:
            self: Resolver = info.context
            count, orders = _limit(limit), orders or ()
            wanted = self._read_filter(where or {}, account["tenant"], [FILTER_PARTS])
            dimensions = _selected(info, "dimensions")
            _check_orders(orders, dimensions)
            rows = await _matching(await self._rows(dataset, account["tenant"], wanted), wanted)
            found = ordered(grouped(rows, dimensions), orders)[:count]
            self.groups_left -= len(found)
            if self.groups_left < 0:
                raise Invalid(f"a query gives at most {GROUPS} groups; choose a smaller limit")
            self.bytes_left -= len(found) * _group_bytes(info)
            if self.bytes_left < 0:
                raise Invalid("the answer is too large; choose a smaller limit, or select fewer fields")
            return [_written(group) for group in found]

        return groups

    async def _rows(self, dataset: Dataset, tenant: str, wanted: Mapping[str, Any]) -> list[Row]:
        services = self.call.services
        start, end = window(wanted, now=services.clock.now(), default_ms=DEFAULT_MS)
        queues = [(queue_id(queue), queue) for queue in self._queues(tenant, wanted)]
        self.steps_left -= max(LEAST_STEPS, (end - start) // step_ms(start, end)) * len(queues)
        if self.steps_left < 0:
            raise Invalid("the query looks at too much; choose a shorter time, or name queues with queueId")
        if start >= end:
            return []
        return [row async for source in sources(services, queues, start=start, end=end) for row in dataset.rows(source)]

    def _queues(self, tenant: str, wanted: Mapping[str, Any]) -> list[Queue]:
        """The queues whose figures the caller may read, and no others than the filter names."""
        named = wanted.get("queueId_in", [wanted["queueId"]] if "queueId" in wanted else None)
        queues = self.call.services.catalog.queues(tenant)
        return [
            queue
            for queue in queues
            if (named is None or queue_id(queue) in named) and self.call.principal.may(Action.STATS, queue)
        ]

    def _read_filter(self, given: Mapping[str, Any], tenant: str, left: list[int]) -> dict[str, Any]:
        """The filter with instants as epoch milliseconds and ids as they are shown; null means no condition."""
        _charge(left, max(1, len(given)))
        read: dict[str, Any] = {}
        for key, value in given.items():
            if value is None:
                continue
            name, _, operator = key.partition("_")
            if key in {"AND", "OR"}:
                read[key] = [self._read_filter(part, tenant, left) for part in value]
            elif operator in {"in", "notin"}:
                _charge(left, len(value))
                read[key] = {self._value(name, one, tenant) for one in value}
            else:
                read[key] = self._value(name, value, tenant)
        return read

    def _value(self, name: str, value: object, tenant: str) -> str | int:
        if name == "queueId":
            return self._shown(str(value), tenant)
        if name not in INSTANTS:
            return str(value)
        at = read_instant(value)
        return at - at % INSTANTS[name]

    def _shown(self, asked: str, tenant: str) -> str:
        """The id under which rows have the queue that a query asks for by another of its ids."""
        queue = self.call.services.catalog.queue_of_id(id_of(asked) or asked)
        return asked if queue is None or queue.tenant != tenant else queue_id(queue)


def _charge(left: list[int], count: int) -> None:
    """Take from the conditions that a filter may have; an empty filter counts as one: each row meets it, too."""
    left[0] -= count
    if left[0] < 0:
        raise Invalid(f"a filter has at most {FILTER_PARTS} conditions")


async def _matching(rows: Sequence[Row], wanted: Mapping[str, Any]) -> list[Row]:
    """The rows that fit; other requests are served in between."""
    found: list[Row] = []
    for start in range(0, len(rows), ROWS_AT_ONCE):
        found += [row for row in rows[start : start + ROWS_AT_ONCE] if matches(row, wanted)]
        await asyncio.sleep(0)
    return found


def _tenant(call: Call, tag: str) -> Tenant:
    """The tenant of an account; one that is not the caller's is answered like one that does not exist."""
    principal = call.principal
    try:
        tenant = call.services.catalog.tenant_of_alias("cloudflare", tag)
    except TenantNotFound:
        raise Forbidden("use", f"account {tag[:80]!r}") from None
    if principal.tenant not in {None, tenant.id}:
        raise Forbidden("use", f"account {tag[:80]!r}")
    return tenant


def _limit(limit: Any) -> int:
    if limit is None:
        return GROUPS
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= GROUPS:
        raise Invalid(f"limit is from 1 to {GROUPS}")
    return limit


def _check_orders(orders: Sequence[str], dimensions: Sequence[str]) -> None:
    for order in orders:
        name = order.rpartition("_")[0]
        if "_" not in name and name != "count" and name not in dimensions:
            raise Invalid(f"orderBy has {name}, which the query does not select among its dimensions")


def _selected(info: Info, field: str) -> list[str]:
    """The names that the query selects below a field of the group, in fragments as well."""
    inside = [
        node.selection_set
        for parent in info.field_nodes
        for node in _fields(info, parent.selection_set)
        if node.name.value == field
    ]
    names = (node.name.value for selections in inside for node in _fields(info, selections))
    return [name for name in dict.fromkeys(names) if not name.startswith("__")]


def _group_bytes(info: Info) -> int:
    """About how large one group is in the answer."""

    def size(selections: SelectionSetNode | None) -> int:
        return sum(
            len((node.alias or node.name).value) + VALUE_BYTES + size(node.selection_set)
            for node in _fields(info, selections)
        )

    return sum(size(node.selection_set) for node in info.field_nodes)


def _fields(info: Info, selections: SelectionSetNode | None) -> list[FieldNode]:
    """The fields of a selection and of its fragments, each of which counts once."""
    found: list[FieldNode] = []
    seen: set[str] = set()
    pending = [selections]
    while pending:
        some = pending.pop()
        for node in some.selections if some is not None else ():
            if isinstance(node, FieldNode):
                found.append(node)
            elif isinstance(node, InlineFragmentNode):
                pending.append(node.selection_set)
            elif isinstance(node, FragmentSpreadNode) and node.name.value not in seen:
                seen.add(node.name.value)
                pending.append(info.fragments[node.name.value].selection_set)
    return found


def _written(group: Group) -> dict[str, Any]:
    dimensions = {
        name: write_instant(name, value) if isinstance(value, int) else value
        for name, value in group.dimensions.items()
    }
    return {
        "count": group.count, "dimensions": dimensions, "avg": group.avg, "sum": group.sum, "max": group.max,
    }  # fmt: skip
