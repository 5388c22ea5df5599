"""GraphQL analytics: the vendor's datasets about queues."""

from typing import Any

import msgspec

from couriermq.core.errors import Forbidden
from couriermq.core.model import Action
from couriermq.dialects.cloudflare.errors import Code
from couriermq.dialects.cloudflare.wire.reading import read
from couriermq.web.call import Call, Reply


class QueryOrder(msgspec.Struct, rename="camel"):
    query: str
    variables: dict[str, Any] | None = None
    operation_name: str | None = None


_order = msgspec.json.Decoder(QueryOrder)


async def query(call: Call) -> Reply:
    """Answer a query; what the caller may not see is left out, or told as an error in the answer."""
    if not call.principal.may_somewhere((Action.STATS,)):
        raise Forbidden("read the figures of", "any queue")
    order = read(_order, call.body, invalid=Code.BODY_INVALID, malformed=Code.BODY_INVALID)
    from couriermq.dialects.cloudflare.graphql.executing import answer  # noqa: PLC0415 - few servers need the library

    document = await answer(call, order.query, order.variables, order.operation_name)
    return Reply(200, msgspec.json.encode(document))
