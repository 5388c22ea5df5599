"""One message as clients of discue.io see it, and the calls with which they use it."""

from couriermq.core.model import Message, Queue
from couriermq.dialects.discue.names import later_names, name_of
from couriermq.dialects.discue.wire.answers import path_of
from couriermq.dialects.discue.wire.messages import message_path, write_message
from couriermq.web.call import Call
from couriermq.web.views import MessageView, curl, view_of

KEY = "X-API-KEY: $COURIER_TOKEN"
VERSION = "/v1"


def show(call: Call, queue: Queue, message: Message) -> MessageView:
    """Without deliveries: these are the listeners' own to tell."""
    name = name_of(message.id, message.attributes, later_names(call, queue))
    messages = VERSION + path_of("queues", queue.id, "messages")
    return view_of(
        write_message(message, name, ()),
        curl(call, "add", "POST", messages, {"name": "hello", "data": "hello"}, token=KEY),
        curl(call, "list", "GET", messages, token=KEY),
        curl(call, "read", "GET", VERSION + message_path(queue.id, message.id), token=KEY),
    )
