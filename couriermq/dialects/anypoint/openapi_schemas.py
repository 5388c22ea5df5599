"""The shapes that the OpenAPI document of this dialect speaks of."""

from typing import Any

from couriermq.dialects.anypoint import limits, rights
from couriermq.dialects.anypoint.wire import FAILURE, SUCCESSFUL

Schema = dict[str, Any]

STRING: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
BOOLEAN: Schema = {"type": "boolean"}
SCALAR: Schema = {"oneOf": [STRING, {"type": "number"}, BOOLEAN], "nullable": True}
WHOLE: Schema = {"oneOf": [INTEGER, STRING], "nullable": True, "description": "A whole number, or one as a string."}
SWITCH: Schema = {"oneOf": [BOOLEAN, {"enum": ["true", "false"]}], "nullable": True}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def record(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def whole(low: int, high: int, text: str) -> Schema:
    return {**WHOLE, "description": f"{text} From {low} to {high}."}


_STATUS: Schema = {"type": "string", "enum": [SUCCESSFUL, FAILURE]}
_OUTCOME = {"messageId": STRING, "status": _STATUS, "statusMessage": STRING, "lockId": STRING}
_POINTS = array(record("date", "value", date=STRING, value=INTEGER), minItems=1)

_QUEUE_SETTINGS: Schema = {
    "defaultTtl": whole(*limits.QUEUE_RANGES["defaultTtl"], "How long messages are kept, in milliseconds."),
    "defaultLockTtl": whole(*limits.QUEUE_RANGES["defaultLockTtl"], "How long a lock lasts, in milliseconds."),
    "defaultDeliveryDelay": whole(*limits.QUEUE_RANGES["defaultDeliveryDelay"], "A delay in milliseconds."),
    "maxDeliveries": whole(*limits.QUEUE_RANGES["maxDeliveries"], "Deliveries before a message is a dead letter."),
    "deadLetterQueueId": {**STRING, "nullable": True},
    "encrypted": {**SWITCH, "description": "Kept and shown; Courier encrypts nothing itself."},
    "fifo": {**SWITCH, "description": "Decided when the queue is created."},
}

SCHEMAS: dict[str, Schema] = {
    # -- broker
    "Publication": record(
        "body",
        headers={
            "type": "object",
            "nullable": True,
            "properties": {
                "messageId": STRING,
                "messageGroupId": {**STRING, "nullable": True},
                "deliveryDelay": whole(0, limits.DELAY_MS, "Milliseconds; not on FIFO queues."),
                "ttl": whole(1, limits.TTL_MS, "Milliseconds that the message is kept."),
            },
            "additionalProperties": SCALAR,
        },
        properties={"type": "object", "nullable": True, "additionalProperties": SCALAR},
        body=STRING,
    ),
    "Message": record(
        "headers",
        "properties",
        "body",
        headers={
            "type": "object",
            "required": ["messageId", "lockId", "created", "deliveryCount"],
            "additionalProperties": STRING,
        },
        properties={"type": "object", "additionalProperties": {"oneOf": SCALAR["oneOf"]}},
        body=STRING,
    ),
    "Lock": record(messageId={**STRING, "nullable": True}, lockId={**STRING, "nullable": True}),
    "LockTtl": record(
        "ttl",
        messageId={**STRING, "nullable": True},
        lockId={**STRING, "nullable": True},
        ttl={"oneOf": [INTEGER, STRING], "description": "A whole number that is not negative, or one as a string."},
    ),
    "Outcome": record("messageId", "status", "statusMessage", **_OUTCOME),
    "Failure": record("status", "statusMessage", **_OUTCOME),
    # -- tokens
    "Credentials": record(client_id=STRING, client_secret=STRING, grant_type={"enum": ["client_credentials"]}),
    "Login": record("username", "password", username=STRING, password=STRING),
    "Token": record("access_token", "token_type", access_token=STRING, token_type=STRING, expires_in=INTEGER),
    "ClientToken": record(
        "access_token",
        "token_type",
        "simple_client",
        access_token=STRING,
        token_type=STRING,
        simple_client=record("envId", "orgId", envId=STRING, orgId=STRING),
    ),
    "LoginToken": record(
        "access_token", "token_type", "redirectUrl", access_token=STRING, token_type=STRING, redirectUrl=STRING
    ),
    "AccountsFailure": record("status", "message", status=INTEGER, message=STRING),
    # -- accounts
    "Environment": record(
        "id",
        "name",
        "organizationId",
        "isProduction",
        "type",
        id=STRING,
        name=STRING,
        organizationId=STRING,
        isProduction=BOOLEAN,
        type=STRING,
    ),
    "Environments": record("data", "total", data=array(ref("Environment")), total=INTEGER),
    "Organization": record(
        "id",
        "name",
        "createdAt",
        "updatedAt",
        "environments",
        "subOrganizationIds",
        "entitlements",
        id=STRING,
        name=STRING,
        createdAt=STRING,
        updatedAt=STRING,
        ownerId=STRING,
        domain=STRING,
        orgType=STRING,
        isRoot=BOOLEAN,
        isMaster=BOOLEAN,
        isFederated=BOOLEAN,
        parentOrganizationIds=array(STRING),
        subOrganizationIds=array(STRING),
        tenantOrganizationIds=array(STRING),
        environments=array(ref("Environment")),
        entitlements={"type": "object"},
        properties={"type": "object"},
    ),
    "Member": record("id", "name", "subOrganizationIds", id=STRING, name=STRING, subOrganizationIds=array(STRING)),
    "Me": record(
        "user",
        user=record(
            "id",
            "username",
            "organizationId",
            "organization",
            "memberOfOrganizations",
            "contributorOfOrganizations",
            id=STRING,
            username=STRING,
            firstName=STRING,
            lastName=STRING,
            email=STRING,
            enabled=BOOLEAN,
            type=STRING,
            organizationId=STRING,
            organization=ref("Organization"),
            memberOfOrganizations=array(ref("Member")),
            contributorOfOrganizations=array(ref("Member")),
        ),
    ),
    # -- admin
    "QueueRequest": {"type": "object", "properties": _QUEUE_SETTINGS},
    "Queue": record(
        "type",
        "queueId",
        "fifo",
        "encrypted",
        "isFallback",
        "defaultTtl",
        "defaultLockTtl",
        "defaultDeliveryDelay",
        type={"enum": ["queue"]},
        queueId=STRING,
        fifo=BOOLEAN,
        encrypted=BOOLEAN,
        defaultTtl=INTEGER,
        defaultLockTtl=INTEGER,
        defaultDeliveryDelay=INTEGER,
        maxDeliveries=INTEGER,
        deadLetterQueueId=STRING,
        deadLetterSources=array(STRING),
        isFallback=BOOLEAN,
        fallbackConfig=ref("FallbackConfig"),
    ),
    "FallbackRequest": record("fallbackEnabled", fallbackEnabled=BOOLEAN),
    "FallbackConfig": record(
        "enabled",
        "linkedQueueName",
        "linkedQueueRegion",
        enabled=BOOLEAN,
        linkedQueueName=STRING,
        linkedQueueRegion=STRING,
    ),
    "Fallback": record(
        "queueId", "isFallback", queueId=STRING, isFallback=BOOLEAN, fallbackConfig=ref("FallbackConfig")
    ),
    "ExchangeRequest": record(encrypted=SWITCH),
    "Exchange": record(
        "type",
        "exchangeId",
        "encrypted",
        type={"enum": ["exchange"]},
        exchangeId=STRING,
        encrypted=BOOLEAN,
    ),
    "Destination": record(
        "type", type={"enum": ["queue", "exchange"]}, queueId=STRING, exchangeId=STRING, fifo=BOOLEAN
    ),
    "Rule": record(
        "propertyName",
        "propertyType",
        "matcherType",
        "value",
        propertyName={"type": "string", "minLength": 1, "maxLength": limits.RULE_NAME_BYTES},
        propertyType={"enum": ["STRING", "NUMERIC"]},
        matcherType={"enum": ["EQ", "PREFIX", "ANY_OF", "NONE_OF", "EXISTS", "LT", "LE", "GT", "GE", "RANGE"]},
        value={"description": "What the matcher takes: a string, a number, a boolean, or a list of these."},
    ),
    "RulesRequest": record("routingRules", routingRules=array(ref("Rule"), maxItems=1)),
    "Binding": record(
        "queueId",
        "exchangeId",
        "fifo",
        queueId=STRING,
        exchangeId=STRING,
        fifo=BOOLEAN,
        routingRules=array(ref("Rule"), maxItems=1),
    ),
    "ClientRequest": record("name", name={"type": "string", "minLength": 1, "maxLength": 256}),
    "Client": record(
        "name",
        "clientId",
        name=STRING,
        clientId=STRING,
        clientSecret={**STRING, "description": "Shown when it is made and never again."},
    ),
    "Region": record(
        "id",
        "regionId",
        "name",
        "serviceUrl",
        "fallbackRegion",
        id=STRING,
        regionId=STRING,
        name=STRING,
        type=STRING,
        serviceUrl=STRING,
        fallbackRegion=STRING,
    ),
    "AdminFailure": record("message", message=STRING),
    # -- stats
    "QueueFigures": record(
        "destination",
        "messages",
        "inflightMessages",
        destination=STRING,
        messages=INTEGER,
        inflightMessages=INTEGER,
    ),
    "QueueHistory": record(
        "destination",
        destination=STRING,
        messages=_POINTS,
        inflightMessages=_POINTS,
        messagesVisible=_POINTS,
        messagesSent=_POINTS,
        messagesReceived=_POINTS,
        messagesAcked=_POINTS,
    ),
    "ExchangeHistory": record("destination", destination=STRING, messagesPublished=_POINTS, messagesDelivered=_POINTS),
    "Usage": record(
        "timestamp",
        "apiRequestCount",
        "messageReceiptCount",
        "billableUnitCount",
        "messageByteCount",
        timestamp=STRING,
        apiRequestCount=INTEGER,
        messageReceiptCount=INTEGER,
        billableUnitCount=INTEGER,
        messageByteCount=INTEGER,
    ),
}

SECURITY: Schema = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A token of /authorize, or a credential's secret."},
    "connectedApp": {
        "type": "oauth2",
        "flows": {
            "clientCredentials": {
                "tokenUrl": "/accounts/api/v2/oauth2/token",
                "scopes": {scope: f"Courier's scope {action}." for scope, action in rights.ACTIONS.items()},
            }
        },
    },
}
