"""The shapes of Discue's document."""

from typing import Any

from couriermq.core.limits import BATCH_COUNT

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "description": "Called `name` by the older generation and `alias` by the newer."}
INSTANT: Schema = {"type": "integer", "description": "Epoch milliseconds."}
MAYBE_INSTANT: Schema = {"type": ["integer", "null"], "description": "Epoch milliseconds."}
COUNT: Schema = {"type": "integer", "minimum": 0}
LINK: Schema = {"type": "object", "properties": {"href": STRING}, "required": ["href"]}
URL: Schema = {"type": "string", "maxLength": 2048, "description": "http or https, without user and password."}
STATUS: Schema = {"enum": ["enabled", "disabled"]}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def shape(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _named(*required: str, **properties: Schema) -> Schema:
    """What has an id and a name, in both words for it."""
    return shape("id", "name", "alias", *required, id=STRING, name=NAME, alias=NAME, **properties)


_BY_NAME: Schema = {"name": NAME, "alias": NAME}
_TRACKED: dict[str, Schema] = {"last_success_at": MAYBE_INSTANT, "last_failure_at": MAYBE_INSTANT,
            "last_failure_status": {"type": ["integer", "null"]},
            "last_failure_msg": {"type": ["string", "null"]}}  # fmt: skip
_KINDS = ("api_key_added", "api_key_updated", "api_key_deleted", "queue_added", "queue_updated", "queue_deleted",
          "listener_added", "listener_updated", "listener_deleted", "message_added", "message_published_ok",
          "message_published_not_ok")  # fmt: skip
_SCOPE_PARTS: dict[str, Schema] = {
    "access": {"enum": ["read", "write"]},
    "targets": {"anyOf": [{"const": "*"}, array(STRING)], "description": "Ids; `*`, or none, stands for all."},
}

SCHEMAS: dict[str, Schema] = {
    "Failure": {
        **shape("title", "status", title=STRING, status={"type": "integer"}),
        "additionalProperties": False,
    },
    "Links": {
        "type": "object",
        "properties": {"self": LINK},
        "required": ["self"],
        "additionalProperties": LINK,
        "description": "`self`, and each child by its name.",
    },
    "MessageSchema": {
        "type": "object",
        "additionalProperties": ref("Directives"),
        "description": "What a queue's messages must look like, property by property.",
    },
    "Directives": shape(
        "type",
        type={"enum": ["object", "array", "string", "number"]},
        required={"type": "boolean", "default": True},
        strict={"type": "boolean", "default": True},
        props={"type": "object", "additionalProperties": ref("Directives"), "minProperties": 1},
        items=ref("Directives"),
        pattern=STRING,
        enum=array(STRING),
        min={"type": "number"},
        max={"type": "number"},
    ),
    "QueueRequest": shape(**_BY_NAME, schema={"anyOf": [ref("MessageSchema"), {"type": "null"}]}),
    "QueueRef": _named(),
    "Queue": _named(
        "listeners",
        listeners=array(_named()),
        schema=ref("MessageSchema"),
        schema_id={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        created_at=INSTANT,
        updated_at=INSTANT,
    ),
    "ListenerRequest": shape(
        **_BY_NAME,
        notify_url=URL,
        liveness_url=URL,
        status={"enum": ["active", "paused", "enabled", "disabled", "inactive"]},
    ),
    "ReplayRequest": shape(
        message_ids={"type": ["array", "null"], "items": STRING, "minItems": 1, "maxItems": BATCH_COUNT},
        since={"type": ["integer", "null"], "minimum": 0},
        until={"type": ["integer", "null"], "minimum": 0},
        missed={"type": "boolean"},
    ),
    "Replay": shape(
        "count",
        "missing",
        "next_since",
        count={"type": "integer"},
        missing=array(STRING),
        next_since={"type": ["integer", "null"]},
    ),
    "Listener": _named(
        "queue_id",
        "status",
        "notify_url",
        "liveness_url",
        "liveness",
        "messages",
        queue_id=STRING,
        status={"enum": ["active", "inactive", "paused", "disabled"]},
        status_reason=STRING,
        notify_url=STRING,
        liveness_url=STRING,
        liveness=shape(
            "state",
            "success_count",
            "failure_count",
            state={"enum": ["unknown", "stable", "unstable", "down"]},
            success_count=COUNT,
            failure_count=COUNT,
            **_TRACKED,
        ),
        messages=shape(
            "acknowledged_count",
            "missed",
            "missed_count",
            acknowledged_count=COUNT,
            missed=array(STRING),
            missed_count=COUNT,
            pending_count=COUNT,
            **_TRACKED,
        ),
        secret={
            "type": "string",
            "description": "When the listener is made, or with `reveal=true` for those who may change it.",
        },
        created_at=INSTANT,
        updated_at=INSTANT,
    ),
    "MessageRequest": shape("data", **_BY_NAME, data=STRING),
    "MessageChange": shape(**_BY_NAME),
    "MessageRef": _named(),
    "Message": _named(
        data=STRING,
        data_base64=STRING,
        content_type=STRING,
        state={"enum": ["delayed", "ready", "leased", "delivered"]},
        deliveries=array(
            shape(
                "listener_id",
                "state",
                listener_id=STRING,
                listener=STRING,
                state={"enum": ["pending", "delivered", "missed", "filtered"]},
                attempts={"type": ["integer", "null"]},
            )
        ),
        created_at=INSTANT,
        delivered_at=INSTANT,
    ),
    "Scope": shape("resource", "access", "targets", resource=STRING, **_SCOPE_PARTS),
    "Scopes": {
        "description": "A list to the older generation, a map by resource to the newer.",
        "anyOf": [
            array(ref("Scope")),
            {"type": "object", "additionalProperties": shape("access", "targets", **_SCOPE_PARTS)},
        ],
    },
    "ApiKeyRequest": shape(
        **_BY_NAME,
        status=STATUS,
        scopes={
            "anyOf": [
                array(shape("resource", resource=STRING, **_SCOPE_PARTS)),
                {"type": "object", "additionalProperties": shape(**_SCOPE_PARTS)},
            ]
        },
    ),
    "ApiKey": _named(
        "status",
        "key",
        "scopes",
        "created_at",
        "updated_at",
        "last_used_at",
        status=STATUS,
        key={"type": "string", "description": "The key itself when it is made; later how it begins."},
        scopes=ref("Scopes"),
        created_at=INSTANT,
        updated_at=INSTANT,
        last_used_at=MAYBE_INSTANT,
    ),
    "NewApiKey": {
        "description": "The key to the older generation, an object that holds it to the newer.",
        "anyOf": [{"type": "string"}, ref("ApiKey")],
    },
    "ApiClientRequest": shape(**_BY_NAME, id=STRING),
    "ApiClient": _named(created_at=INSTANT),
    "DomainRequest": shape(
        **_BY_NAME,
        hostname={"type": "string", "minLength": 4, "maxLength": 253},
        port={"type": "integer", "minimum": 80, "maximum": 65_535},
    ),
    "Domain": _named(
        "hostname",
        "port",
        "challenge",
        "verification",
        hostname=STRING,
        port={"type": "integer"},
        challenge=shape(
            "https",
            https=shape(
                "file_content",
                "file_name",
                "context_path",
                "created_at",
                "expires_at",
                file_content=STRING,
                file_name=STRING,
                context_path=STRING,
                created_at=INSTANT,
                expires_at=INSTANT,
            ),
        ),
        verification=shape("verified", "verified_at", verified={"type": "boolean"}, verified_at=INSTANT),
        created_at=INSTANT,
        updated_at=INSTANT,
    ),
    "Event": shape(
        "id",
        "type",
        "stored_at",
        "client",
        id=STRING,
        type={"enum": list(_KINDS)},
        stored_at=INSTANT,
        client=shape("id", id=STRING),
        principal=shape("id", id=STRING),
        message=_named(),
        api_key=_named(),
        queue=_named(),
        listener=_named(),
    ),
    "Counts": shape(*_KINDS, **dict.fromkeys(_KINDS, COUNT)),
    "Stats": shape(
        "last_24_hours",
        "last_1_hours",
        "today_so_far",
        last_24_hours=ref("Counts"),
        last_1_hours=ref("Counts"),
        today_so_far=ref("Counts"),
    ),
}
