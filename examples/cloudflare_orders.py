"""Orders through Cloudflare's own Python SDK: a producer, a consumer that retries what fails, and a look at the dead.

    pip install cloudflare
    COURIER_URL=http://127.0.0.1:8080 COURIER_TOKEN=… python examples/cloudflare_orders.py

The only line that differs from a program for Cloudflare itself is the `base_url`.
"""

import json
import os

from cloudflare import Cloudflare
from cloudflare.types.queues import message_ack_params

ACCOUNT = os.environ.get("CLOUDFLARE_ACCOUNT_ID", "default")


def main() -> None:
    client = Cloudflare(
        base_url=os.environ.get("COURIER_URL", "http://127.0.0.1:8080") + "/client/v4",
        api_token=os.environ["COURIER_TOKEN"],
    )
    orders = open_queue(client, "orders", dead_letter_queue="orders-dead")
    produce(client, orders)
    consume(client, orders)
    dead = open_queue(client, "orders-dead")
    print("dead letters:", ", ".join(drain(client, dead)) or "none")


def open_queue(client: Cloudflare, name: str, *, dead_letter_queue: str = "") -> str:
    """The id of a queue that can be pulled, created where there is none."""
    queue = next((queue for queue in client.queues.list(account_id=ACCOUNT) if queue.queue_name == name), None)
    if queue is None:
        queue = client.queues.create(account_id=ACCOUNT, queue_name=name)
    assert queue is not None
    assert queue.queue_id is not None
    if not queue.consumers:
        client.queues.consumers.create(
            queue.queue_id,
            account_id=ACCOUNT,
            type="http_pull",
            dead_letter_queue=dead_letter_queue,
            settings={"max_retries": 2, "visibility_timeout_ms": 30_000},
        )
    return queue.queue_id


def produce(client: Cloudflare, queue_id: str) -> None:
    """One message alone, the others as a batch."""
    client.queues.messages.push(queue_id, account_id=ACCOUNT, body={"order": "A-1", "total": 19.9})
    answer = client.queues.messages.bulk_push(
        queue_id,
        account_id=ACCOUNT,
        messages=[
            {"body": {"order": "A-2", "total": 5}, "content_type": "json"},
            {"body": {"order": "A-3", "total": -1}, "content_type": "json"},
        ],
    )
    assert answer is not None
    assert answer.metadata is not None
    assert answer.metadata.metrics is not None
    print(f"sent; {answer.metadata.metrics.backlog_count:.0f} orders wait")


def consume(client: Cloudflare, queue_id: str) -> None:
    """Pull until nothing is left: what can be handled is acked, what cannot is tried again until it is dead."""
    while True:
        pulled = client.queues.messages.pull(queue_id, account_id=ACCOUNT, batch_size=10)
        if pulled is None or not pulled.messages:
            return
        acks: list[message_ack_params.Ack] = []
        retries: list[message_ack_params.Retry] = []
        for message in pulled.messages:
            order = json.loads(message.body or "")
            done = handle(order, attempt=int(message.attempts or 1))
            if done:
                acks.append({"lease_id": str(message.lease_id)})
            else:
                retries.append({"lease_id": str(message.lease_id)})
        client.queues.messages.ack(queue_id, account_id=ACCOUNT, acks=acks, retries=retries)


def handle(order: dict[str, float], *, attempt: int) -> bool:
    """Whether the order could be handled; nobody can handle a negative total."""
    done = order["total"] >= 0
    print(f"order {order['order']}, attempt {attempt}: {'done' if done else 'failed'}")
    return done


def drain(client: Cloudflare, queue_id: str) -> list[str]:
    """The orders in a dead letter queue, taken out of it."""
    found: list[str] = []
    while True:
        pulled = client.queues.messages.pull(queue_id, account_id=ACCOUNT, batch_size=100)
        if pulled is None or not pulled.messages:
            return found
        found += [json.loads(message.body or "")["order"] for message in pulled.messages]
        client.queues.messages.ack(
            queue_id, account_id=ACCOUNT, acks=[{"lease_id": str(message.lease_id)} for message in pulled.messages]
        )


if __name__ == "__main__":
    main()
