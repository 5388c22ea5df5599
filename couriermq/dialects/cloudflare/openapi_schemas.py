"""The shapes of the OpenAPI document, as data."""

from typing import Any

from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.wire import notifications
from couriermq.dialects.cloudflare.wire.subscriptions import EVENTS, QUEUE_DESTINATION

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
INSTANT: Schema = {"type": "string", "format": "date-time"}
ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
ANY_ID: Schema = {"type": "string", "description": "The 32 hex digits of an answer, an id of Courier, or a name."}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def shape(required: str = "", /, **properties: Schema) -> Schema:
    """An object; `required` names, with blanks between, what is always there."""
    found: Schema = {"type": "object", "properties": properties}
    if required:
        found["required"] = required.split()
    return found


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def between(low: int, high: int, description: str) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high, "description": description}


def said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


DELAY = between(0, limits.DELAY_S, "Seconds to wait before the message may be delivered; 0 cancels the queue's delay.")
LEASE = between(0, limits.LEASE_MS, "Milliseconds for which a pulled message is the caller's alone.")
BATCH_SIZE = between(1, limits.PULL_COUNT, "How many messages at most.")

ENVELOPE = {
    "ResponseInfo": shape(
        "code message", code={"type": "integer"}, message=STRING, source=shape(pointer=STRING), documentation_url=STRING
    ),
    "Failure": shape(
        "success errors messages result",
        success={"const": False},
        errors=array(ref("ResponseInfo"), minItems=1),
        messages=array(STRING),
        result={"type": "null"},
    ),
    "PageInfo": shape(
        "page per_page count total_count total_pages",
        page=COUNT,
        per_page=COUNT,
        count=COUNT,
        total_count=COUNT,
        total_pages=COUNT,
    ),
}

MESSAGES = {
    "Metrics": shape(
        "backlog_bytes backlog_count oldest_message_timestamp_ms",
        backlog_bytes=said(COUNT, "Bytes of the messages that are not acknowledged, leased and delayed ones included."),
        backlog_count=COUNT,
        oldest_message_timestamp_ms=said(COUNT, "Epoch milliseconds; 0 when the queue is empty."),
    ),
    "PushRequest": shape(
        "body",
        body={"description": "Any JSON but a string; a string for `text`; base64 for `bytes` and `v8`."},
        content_type={"enum": ["json", "text", "bytes", "v8", None], "default": "json"},
        delay_seconds=DELAY,
    ),
    "BatchRequest": shape(
        "messages",
        messages=array(ref("PushRequest"), minItems=1, maxItems=limits.BATCH_COUNT),
        delay_seconds=said(DELAY, "For every message that has no delay of its own."),
    ),
    "PushResult": shape("metadata", metadata=shape("metrics", metrics=ref("Metrics"))),
    "PullRequest": shape(
        batch_size=BATCH_SIZE,
        visibility_timeout_ms=LEASE,
        visibility_timeout=said(LEASE, "The old name of visibility_timeout_ms."),
    ),
    "MessageMetadata": {
        "type": "object",
        "properties": {
            "CF-Content-Type": {"enum": ["text", "json", "bytes", "v8"]},
            "CF-sourceMessageSource": STRING,
            "CF-msg-delay-secs": STRING,
        },
        "required": ["CF-Content-Type", "CF-sourceMessageSource"],
        "additionalProperties": STRING,
    },
    "PulledMessage": shape(
        "id body attempts timestamp_ms metadata lease_id",
        id=ID,
        body=said(STRING, "Text and JSON as they are, anything else as base64."),
        attempts=said(COUNT, "Deliveries so far, this one included."),
        timestamp_ms=COUNT,
        metadata=ref("MessageMetadata"),
        lease_id=STRING,
    ),
    "PullResult": shape(
        "message_backlog_count messages metadata",
        message_backlog_count=COUNT,
        messages=array(ref("PulledMessage")),
        metadata=shape("metrics", metrics=ref("Metrics")),
    ),
    "AckRequest": shape(
        acks=array(shape("lease_id", lease_id=STRING)),
        retries=array(shape("lease_id", lease_id=STRING, delay_seconds=DELAY)),
    ),
    "AckResult": shape(
        "ackCount retryCount",
        ackCount=COUNT,
        retryCount=COUNT,
        warnings={
            "type": "object",
            "additionalProperties": STRING,
            "description": "By lease id, what did not go as asked; absent when all did.",
        },
    ),
    "PeekRequest": shape(batch_size=BATCH_SIZE),
    "PeekResult": shape(
        "messages",
        messages=array(
            shape(
                "id body attempts timestamp_ms metadata ref",
                id=ID,
                body=STRING,
                attempts=COUNT,
                timestamp_ms=COUNT,
                metadata=ref("MessageMetadata"),
                ref=STRING,
            )
        ),
    ),
    "PurgeRefsRequest": shape("refs", refs=array(shape("ref", ref=STRING), maxItems=limits.REF_COUNT)),
    "PurgeRefsResult": shape(
        errors=array(shape(message=STRING)), warnings={"type": "object", "additionalProperties": STRING}
    ),
}

QUEUES = {
    "QueueSettings": shape(
        delivery_delay=between(0, limits.DELAY_S, "Seconds that a new message waits."),
        delivery_paused=BOOLEAN,
        message_retention_period=between(*limits.RETENTION_S, "Seconds after which a message is dropped."),
    ),
    "QueueName": {"type": "string", "pattern": f"^{limits.QUEUE_NAME.pattern}$"},
    "QueueRequest": shape(
        queue_name=ref("QueueName"),
        settings=ref("QueueSettings"),
        jurisdiction={"enum": ["eu", "us", "fedramp", None]},
    ),
    "Queue": shape(
        "queue_id queue_name created_on modified_on producers producers_total_count consumers consumers_total_count "
        "settings",
        queue_id=said(STRING, "32 hex digits, or the alias that the queue has for this API."),
        queue_name=said(STRING, "A queue made by another dialect may have a name that could not be made here."),
        created_on=INSTANT,
        modified_on=INSTANT,
        jurisdiction={"enum": ["eu", "us", "fedramp"]},
        producers=array({"type": "object"}),
        producers_total_count=COUNT,
        consumers=array(ref("Consumer")),
        consumers_total_count=COUNT,
        settings=shape(
            "delivery_delay delivery_paused message_retention_period",
            delivery_delay={"type": "number"},
            delivery_paused=BOOLEAN,
            message_retention_period={"type": "number"},
        ),
    ),
    "PurgeRequest": shape("delete_messages_permanently", delete_messages_permanently={"const": True}),
    "PurgeStatus": shape(completed={"enum": ["true", "false"]}, started_at=INSTANT),
}

_WEBHOOKS = array(shape("id", id=STRING), maxItems=notifications.WEBHOOKS)

CONSUMERS = {
    "ConsumerRequest": shape(
        "type",
        type={"enum": ["http_pull", "worker", "notification"]},
        script_name=said(STRING, "Needed by a worker consumer."),
        script=STRING,
        environment_name=STRING,
        dead_letter_queue=said(STRING, "The name of a queue, which is created where there is none; empty for none."),
        settings=shape(
            batch_size=between(1, limits.CONSUMER_BATCH, "How many messages a pull gets unless it says."),
            max_retries=between(0, limits.RETRIES, "Deliveries after the first before a message is dead."),
            retry_delay=between(0, limits.DELAY_S, "Seconds before a message is tried again."),
            visibility_timeout_ms=LEASE,
            max_concurrency={"type": ["integer", "null"], "minimum": 1, "maximum": limits.CONSUMER_CONCURRENCY},
            max_wait_time_ms=between(0, limits.CONSUMER_WAIT_MS, "How long a worker's batch waits to fill."),
            webhooks=said(_WEBHOOKS, "Of a notification consumer: URLs."),
        ),
    ),
    "LegacyConsumerRequest": shape(
        service=said(STRING, "The name of the script; that of the path stands for it."),
        script_name=STRING,
        environment=STRING,
        dead_letter_queue=STRING,
        settings=shape(
            batch_size=between(1, limits.CONSUMER_BATCH, "How many messages a batch has."),
            max_retries=between(0, limits.RETRIES, "Deliveries after the first before a message is dead."),
            max_wait_time_ms=between(0, limits.CONSUMER_WAIT_MS, "Kept for worker consumers."),
        ),
    ),
    "Consumer": shape(
        "consumer_id type queue_id queue_name created_on dead_letter_queue settings",
        consumer_id=ID,
        type={"enum": ["http_pull", "worker", "notification"]},
        queue_id=STRING,
        queue_name=STRING,
        created_on=INSTANT,
        dead_letter_queue=STRING,
        script_name=STRING,
        script=STRING,
        service=said(STRING, "The script again, at the old paths only."),
        environment=STRING,
        settings=shape(
            "batch_size max_retries retry_delay",
            batch_size=COUNT,
            max_retries={"type": ["integer", "null"]},
            retry_delay={"type": "number"},
            visibility_timeout_ms=COUNT,
            max_concurrency={"type": ["integer", "null"]},
            max_wait_time_ms=COUNT,
            email=array(STRING),
            pagerduty=array(STRING),
            webhooks=_WEBHOOKS,
        ),
    ),
}

_SOURCE: Schema = {"type": "object", "properties": {"type": {"enum": list(EVENTS)}}, "required": ["type"]}
_DESTINATION = shape("queue_id type", queue_id=ANY_ID, type={"const": QUEUE_DESTINATION})

SUBSCRIPTIONS = {
    "SubscriptionRequest": shape(
        "name source destination events",
        name=STRING,
        enabled={"type": "boolean", "default": True},
        source=_SOURCE,
        destination=_DESTINATION,
        events=array(STRING, minItems=1),
    ),
    "SubscriptionChange": shape(
        name=STRING, enabled=BOOLEAN, destination=_DESTINATION, events=array(STRING, minItems=1)
    ),
    "Subscription": shape(
        "id created_at modified_at name enabled source destination events",
        id=ID,
        created_at=INSTANT,
        modified_at=INSTANT,
        name=STRING,
        enabled=BOOLEAN,
        source=_SOURCE,
        destination=_DESTINATION,
        events=array(STRING),
    ),
}

BINDING = {
    "BindingMetrics": shape(
        "backlogCount backlogBytes oldestMessageTimestamp",
        backlogCount=COUNT,
        backlogBytes=COUNT,
        oldestMessageTimestamp=COUNT,
    ),
    "BindingResult": shape("metadata", metadata=shape("metrics", metrics=ref("BindingMetrics"))),
    "BindingBatch": shape(
        "messages",
        messages=array(
            shape(
                "body",
                body={"type": "string", "contentEncoding": "base64"},
                contentType={"enum": ["text", "json", "bytes", "v8", None]},
                delaySecs=DELAY,
            ),
            minItems=1,
            maxItems=limits.BATCH_COUNT,
        ),
    ),
}

ACCOUNTS = {
    "Token": shape("id status", id=ID, status={"const": "active"}, expires_on=INSTANT),
    "User": shape("id email username", id=ID, email=STRING, username=STRING),
    "Account": shape(
        "id name type created_on", id=ID, name=STRING, type=STRING, created_on=INSTANT, settings={"type": "object"}
    ),
    "Membership": shape(
        "id status account roles permissions",
        id=ID,
        status={"const": "accepted"},
        account=ref("Account"),
        roles=array(STRING),
        permissions={"type": "object", "additionalProperties": shape("read write", read=BOOLEAN, write=BOOLEAN)},
    ),
}

GRAPHQL = {
    "GraphQLRequest": shape(
        "query", query=STRING, variables={"type": ["object", "null"]}, operationName={"type": ["string", "null"]}
    ),
    "GraphQLResult": shape(
        "data errors",
        data={"type": ["object", "null"]},
        errors={"anyOf": [{"type": "null"}, array(ref("GraphQLError"), minItems=1)]},
    ),
    "GraphQLError": shape(
        "message extensions",
        message=STRING,
        path=array({"type": ["string", "integer"]}),
        locations=array(shape("line column", line=COUNT, column=COUNT)),
        extensions=shape("code timestamp", code=STRING, timestamp=INSTANT),
    ),
}

SCHEMAS: dict[str, Schema] = ENVELOPE | MESSAGES | QUEUES | CONSUMERS | SUBSCRIPTIONS | BINDING | ACCOUNTS | GRAPHQL
