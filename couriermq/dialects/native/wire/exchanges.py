"""Exchanges and bindings on the wire."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core import model
from couriermq.core.errors import Invalid
from couriermq.core.model import Attribute, Rule
from couriermq.core.routing import check_rule
from couriermq.dialects.native.wire.annotations import Annotations
from couriermq.dialects.native.wire.messages import AnyJson
from couriermq.dialects.native.wire.queues import Name
from couriermq.dialects.native.wire.reading import Order


class NewExchange(Order):
    name: Name
    annotations: Annotations = msgspec.field(default_factory=dict)


class ExchangeChange(Order):
    """The new annotations, in place of all the old ones."""

    annotations: Annotations


class Exchange(msgspec.Struct):
    id: str
    name: str
    tenant: str
    annotations: Annotations
    created_at: int
    changed_at: int


class Exchanges(msgspec.Struct):
    """A page of exchanges by name. `next` goes into `after` for the page that follows; null is the end."""

    exchanges: list[Exchange]
    next: str | None


class BindOrder(Order):
    """All rules must hold for a message to pass; no rule lets every message through."""

    rules: Annotated[list[Rule], Meta(max_length=100)] = msgspec.field(default_factory=list)


class RouteOrder(Order):
    """A message that is not sent: its attributes, and its body where that is JSON."""

    attributes: Annotated[dict[str, Attribute], Meta(max_length=1_000)] = msgspec.field(default_factory=dict)
    json: AnyJson | UnsetType = UNSET


class Routed(msgspec.Struct):
    """Whether a queue would get a copy, and the first rule that refuses it."""

    queue: str
    queue_id: str
    matches: bool
    failed_rule: Rule | None


class RoutedQueues(msgspec.Struct):
    queues: list[Routed]


class Binding(msgspec.Struct):
    exchange: str
    queue: str
    queue_id: str
    rules: tuple[Rule, ...]
    created_at: int
    changed_at: int


class Bindings(msgspec.Struct):
    bindings: list[Binding]


NEW_EXCHANGE = msgspec.json.Decoder(NewExchange)
EXCHANGE_CHANGE = msgspec.json.Decoder(ExchangeChange)
ROUTE = msgspec.json.Decoder(RouteOrder)
BIND = msgspec.json.Decoder(BindOrder)


def rules_of(order: BindOrder) -> list[Rule]:
    """The rules, each checked here so that an error can say which one it is."""
    for index, rule in enumerate(order.rules):
        try:
            check_rule(rule)
        except Invalid as error:
            raise Invalid(str(error), field=f"rules[{index}].{error.field}") from None
    return order.rules


def write_exchange(exchange: model.Exchange) -> Exchange:
    return Exchange(
        id=exchange.id,
        name=exchange.name,
        tenant=exchange.tenant,
        annotations=exchange.annotations,
        created_at=exchange.created_at,
        changed_at=exchange.changed_at,
    )


def write_binding(binding: model.Binding, exchange: model.Exchange, queue: model.Queue) -> Binding:
    return Binding(
        exchange=exchange.name,
        queue=queue.name,
        queue_id=queue.id,
        rules=binding.rules,
        created_at=binding.created_at,
        changed_at=binding.changed_at,
    )
