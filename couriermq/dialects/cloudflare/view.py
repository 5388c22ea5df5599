"""One message as Cloudflare's clients see it, and the calls with which they use it."""

from couriermq.core.model import Counters, Message, Queue
from couriermq.dialects.cloudflare.ids import account_id, queue_id
from couriermq.dialects.cloudflare.routes import PREFIX
from couriermq.dialects.cloudflare.wire.pull import write_pull
from couriermq.web.call import Call
from couriermq.web.views import RECEIPT, MessageView, curl, looked_at, view_of


def show(call: Call, queue: Queue, message: Message) -> MessageView:
    json_plain = call.services.settings.dialects.cloudflare.json_body == "plain"
    pulled = write_pull([looked_at(message)], Counters(), json_plain=json_plain).messages[0]
    account = account_id(call.services.catalog.tenant(queue.tenant))
    path = f"{PREFIX}/accounts/{account}/queues/{queue_id(queue)}/messages"
    return view_of(
        pulled,
        curl(call, "push", "POST", path, {"body": "hello", "content_type": "text"}),
        curl(call, "pull", "POST", f"{path}/pull", {"batch_size": 1, "visibility_timeout_ms": 30_000}),
        curl(call, "ack", "POST", f"{path}/ack", {"acks": [{"lease_id": RECEIPT}], "retries": []}),
    )
