"""The three routes that a queue binding of the Workers runtime calls."""

from couriermq.core.model import Action
from couriermq.dialects.cloudflare.access import queue_of
from couriermq.dialects.cloudflare.messages import counters_beside, store
from couriermq.dialects.cloudflare.wire import binding as wire
from couriermq.web.call import Call, Reply


async def message(call: Call) -> Reply:
    queue = queue_of(call, Action.SEND)
    draft = wire.read_message(
        call.body,
        queue,
        form=call.header(b"x-msg-fmt"),
        delay=call.header(b"x-msg-delay-secs"),
        trace=call.trace,
    )
    await store(call, queue, [draft])
    return wire.sent(await counters_beside(call, queue))


async def batch(call: Call) -> Reply:
    queue = queue_of(call, Action.SEND)
    drafts = wire.read_messages(call.body, queue, delay=call.header(b"x-msg-delay-secs"), trace=call.trace)
    await store(call, queue, drafts)
    return wire.sent(await counters_beside(call, queue))


async def metrics(call: Call) -> Reply:
    """A producer may see how it stands with its queue."""
    queue = queue_of(call, None)
    return wire.plain(wire.write_metrics(await call.services.broker.counters(queue)))
