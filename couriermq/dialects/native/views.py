"""One message as every dialect shows it: each dialect's own words make its part."""

from urllib.parse import quote

import msgspec

from couriermq.core.errors import MessageNotFound, QueueNotFound
from couriermq.core.model import Action, Message, Queue
from couriermq.dialects.native.access import names_of_queues, queue_for
from couriermq.dialects.native.operations import PREFIX, QUEUE, Operation, ok
from couriermq.dialects.native.wire import messages
from couriermq.dialects.native.wire.views import DialectViews
from couriermq.web.call import Call, Reply
from couriermq.web.views import RECEIPT, MessageView, curl, view_of

WHOLE_BYTES = 256 * 1024
CUT_BYTES = 4 * 1024
"""A body that is larger than the first is cut to the second, and is no longer of its content type."""


async def read_views(call: Call) -> Reply:
    queue = queue_for(call, Action.BROWSE)
    message = await call.services.broker.read_message(queue, call.params["message"])
    is_cut = message.size > WHOLE_BYTES
    if is_cut:
        message = msgspec.structs.replace(message, body=message.body[:CUT_BYTES], content_type=messages.BYTES)
    views = {dialect.name: dialect.show(call, queue, message) for dialect in call.services.showing}
    return ok(
        DialectViews(
            {name: view.message for name, view in views.items()},
            {name: view.commands for name, view in views.items()},
            is_cut,
        )
    )


def show(call: Call, queue: Queue, message: Message) -> MessageView:
    shown = messages.write_message(message, names_of_queues(call), call.numbers.seq(message.seq))
    path = f"{PREFIX}/tenants/{quote(queue.tenant, safe='')}/queues/{quote(queue.name, safe='')}"
    return view_of(
        shown,
        curl(call, "send", "POST", f"{path}/messages", {"body": "hello"}),
        curl(call, "receive", "POST", f"{path}/receive", {"limit": 1}),
        curl(call, "ack", "POST", f"{path}/ack", {"receipt": RECEIPT}),
        curl(call, "read", "GET", f"{path}/messages/{quote(message.id, safe='')}"),
    )


OPERATIONS = (
    Operation(
        method="GET",
        path=QUEUE + "/messages/{message}/dialects",
        handler=read_views,
        tag="Messages",
        summary="See one message as every dialect shows it",
        description="With lines for a shell that send, receive and ack there; the token is the variable"
        " `COURIER_TOKEN`, and `<receipt>` stands where a receiver finds its own. Nothing is leased.",
        needs="browse",
        gives={200: DialectViews},
        fails=(QueueNotFound, MessageNotFound),
    ),
)
