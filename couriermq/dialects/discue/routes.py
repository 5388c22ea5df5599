"""Every path of Discue and who serves it, each under /v1 and without."""

from couriermq.dialects.discue import api_clients, limits, listeners, messages, queues
from couriermq.dialects.discue.api_keys import ApiKeys
from couriermq.dialects.discue.domains import Domains
from couriermq.dialects.discue.history import Remembrance
from couriermq.dialects.discue.quota import quota_headers
from couriermq.dialects.discue.usage import Usage
from couriermq.dialects.discue.wire.reading import check_accept, check_content_type
from couriermq.web.call import Call, Handler, Reply, Route

VERSION = "/v1"
RESOURCES = (
    "queues", "listeners", "messages", "schemas", "api_keys", "api_clients", "domains", "events", "stats",
)  # fmt: skip
PREFIXES = (VERSION, *(f"/{resource}" for resource in RESOURCES))

QUEUE = "/queues/{queue_id}"
LISTENERS = QUEUE + "/listeners"
LISTENER = LISTENERS + "/{listener_id}"
REPLAY = LISTENER + "/replay"
MESSAGES = QUEUE + "/messages"
MESSAGE = MESSAGES + "/{message_id}"
SCHEMA = QUEUE + "/schemas/{schema_id}"
KEY = "/api_keys/{api_key_id}"
CLIENT = "/api_clients/{api_client_id}"
DOMAIN = "/domains/{domain_id}"

Row = tuple[str, str, Handler]
CREATE = ("POST", "PUT")
"""The reference creates with POST, older programs with PUT on the collection."""


def routes(keys: ApiKeys) -> list[Route]:
    remembrance = Remembrance()
    rows = [
        *_queue_rows(),
        *_listener_rows(),
        *_message_rows(messages.OneMessage(remembrance)),
        *_key_rows(keys),
        *_client_rows(),
        *_domain_rows(Domains()),
        *_usage_rows(Usage(remembrance)),
    ]
    return [
        Route(method, prefix + path, _in_json(handler), body_limit=_body_limit(path))
        for prefix in (VERSION, "")
        for method, path, handler in rows
    ]


def _in_json(handler: Handler) -> Handler:
    """Refuse what is not JSON, in or out, and tell in the answer how much the caller may still ask."""

    async def serve(call: Call) -> Reply:
        check_accept(call)
        check_content_type(call)
        reply = await handler(call)
        reply.headers = (*reply.headers, *quota_headers(call))
        return reply

    return serve


def _body_limit(path: str) -> int | None:
    """A message may be as large as its queue allows."""
    return None if path == MESSAGES else limits.CONTROL_REQUEST_BYTES


def _creating(path: str, handler: Handler) -> list[Row]:
    return [(method, path, handler) for method in CREATE]


def _queue_rows() -> list[Row]:
    return [
        ("GET", "/queues", queues.list_queues),
        *_creating("/queues", queues.create_queue),
        ("GET", QUEUE, queues.get_queue),
        ("PUT", QUEUE, queues.change_queue),
        ("DELETE", QUEUE, queues.delete_queue),
        ("GET", SCHEMA, queues.get_schema),
    ]


def _listener_rows() -> list[Row]:
    return [
        ("GET", "/listeners", listeners.list_all_listeners),
        ("GET", LISTENERS, listeners.list_listeners),
        *_creating(LISTENERS, listeners.create_listener),
        ("GET", LISTENER, listeners.get_listener),
        ("PUT", LISTENER, listeners.change_listener),
        ("DELETE", LISTENER, listeners.delete_listener),
        *_creating(REPLAY, listeners.replay),
    ]


def _message_rows(one: messages.OneMessage) -> list[Row]:
    return [
        ("GET", "/messages", messages.list_all_messages),
        ("GET", MESSAGES, messages.list_messages),
        *_creating(MESSAGES, messages.add_message),
        ("GET", MESSAGE, one.get_message),
        ("PUT", MESSAGE, messages.rename_message),
        ("DELETE", MESSAGE, one.delete_message),
    ]


def _key_rows(keys: ApiKeys) -> list[Row]:
    return [
        ("GET", "/api_keys", keys.list_keys),
        *_creating("/api_keys", keys.create_key),
        ("GET", KEY, keys.get_key),
        ("PUT", KEY, keys.change_key),
        ("DELETE", KEY, keys.delete_key),
    ]


def _client_rows() -> list[Row]:
    return [
        ("GET", "/api_clients", api_clients.list_clients),
        *_creating("/api_clients", api_clients.create_client),
        ("GET", CLIENT, api_clients.get_client),
        ("PUT", CLIENT, api_clients.change_client),
    ]


def _domain_rows(domains: Domains) -> list[Row]:
    return [
        ("GET", "/domains", domains.list_domains),
        *_creating("/domains", domains.create_domain),
        ("GET", DOMAIN, domains.get_domain),
        ("PUT", DOMAIN, domains.change_domain),
        ("DELETE", DOMAIN, domains.delete_domain),
    ]


def _usage_rows(usage: Usage) -> list[Row]:
    return [("GET", "/events", usage.list_events), ("GET", "/stats/messages", usage.get_stats)]
