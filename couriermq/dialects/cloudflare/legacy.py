"""The first form of the API, `/workers/queues`: queues by their names, consumers by the names of their scripts.

cloudflare-go v0 and Terraform's provider v4 call it. A consumer is read as the present form has it and answered by the
same handlers; the answers show its script as `service` in addition, which is the name that those clients read.
"""

from couriermq.clock import mint_id
from couriermq.core.model import Action
from couriermq.dialects.cloudflare import consumers
from couriermq.dialects.cloudflare.access import queue_of
from couriermq.dialects.cloudflare.wire import consumers as wire
from couriermq.web.call import Call, Reply


async def create_consumer(call: Call) -> Reply:
    queue_of(call, Action.MANAGE)
    call.body = wire.present_form(call.body)
    return await consumers.create_consumer(call)


async def replace_consumer(call: Call) -> Reply:
    """Replace the consumer of that script, or create one for it."""
    queue = queue_of(call, Action.MANAGE)
    asked = call.params["consumer_id"]
    call.body = wire.present_form(call.body, script=asked)
    if wire.consumer_of(queue) is None:
        call.params = {**call.params, "consumer_id": mint_id(call.services.clock)}
        return await consumers.replace_consumer(call)
    return await consumers.replace_consumer(_by_id(call))


async def get_consumer(call: Call) -> Reply:
    return await consumers.get_consumer(_by_id(call))


async def delete_consumer(call: Call) -> Reply:
    return await consumers.delete_consumer(_by_id(call))


def _by_id(call: Call) -> Call:
    """The call with the id of the consumer that it names by its script."""
    consumer = wire.consumer_of(queue_of(call, None))
    if consumer is not None and consumer.script_name == call.params["consumer_id"]:
        call.params = {**call.params, "consumer_id": consumer.id}
    return call
