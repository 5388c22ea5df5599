"""One message as clients of Anypoint MQ see it, and the calls with which they use it."""

from urllib.parse import quote

import msgspec

from couriermq.core.model import Message, Queue
from couriermq.dialects.anypoint.place import names_of
from couriermq.dialects.anypoint.wire import FULL, write_leases
from couriermq.web.call import Call
from couriermq.web.views import RECEIPT, MessageView, curl, looked_at, view_of

_first = msgspec.json.Decoder(list[msgspec.Raw])


def show(call: Call, queue: Queue, message: Message) -> MessageView:
    shown = bytes(_first.decode(write_leases([looked_at(message)], FULL))[0])
    organization, environment = map(_quoted, names_of(call.services.catalog.tenant(queue.tenant)))
    place = f"/api/v1/organizations/{organization}/environments/{environment}"
    path = f"{place}/destinations/{_quoted(queue.name)}/messages"
    one = f"{path}/{_quoted(message.id)}"
    return view_of(
        shown,
        curl(call, "publish", "PUT", f"{path}/<new id>", {"body": "hello"}),
        curl(call, "consume", "GET", f"{path}?batchSize=1"),
        curl(call, "ack", "DELETE", one, {"lockId": RECEIPT}),
    )


def _quoted(text: str) -> str:
    return quote(text, safe="")
