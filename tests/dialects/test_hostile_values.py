"""No value of a field, parameter, header or body is a failure of the server: the caller is told what to change."""

import base64
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.model import Matcher, Rule, RuleType
from couriermq.core.parsing import whole_number
from couriermq.core.routing import Document, matches
from tests.support.inprocess import InProcess, courier_app

pytestmark = pytest.mark.slow

DEEP = 100_000
HOSTILE: dict[str, bytes] = {
    "not UTF-8": b'"\xff\xfe"',
    "half a surrogate pair": b'"\\ud800"',
    "a null character": b'"a\\u0000b"',
    "5,000 digits": b"9" * 5_000,
    "5,000 digits in a string": b'"' + b"9" * 5_000 + b'"',
    "31 digits": b"-1" + b"0" * 30,
    "more than 64 bits": b"18446744073709551616",
    "less than 64 bits": b"-9223372036854775809",
    "a huge number": b"1e308",
    "more than a double": b"1e999",
    "a tiny number": b"5e-324",
    "not a number": b"NaN",
    "infinity": b"-Infinity",
    "infinity in a string": b'"inf"',
    "digits of another script": '"٣٣"'.encode(),
    "a list": b"[[]]",
    "an object": b'{"a":{"b":[null]}}',
    "nested deeply": b"[" * DEEP + b"]" * DEEP,
    "objects nested deeply": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "nested as deeply as a decoder allows": b"[" * 900 + b"]" * 900,
    "nothing": b"null",
    "true": b"true",
    "an empty string": b'""',
    "a long string": b'"' + b"x" * 100_000 + b'"',
}


class Request(NamedTuple):
    """A request that is good as it stands; every value of its body is replaced in turn."""

    method: str
    path: str
    body: Any = None


NATIVE = "/courier/v1/tenants/default"
CLOUDFLARE = "/client/v4/accounts/default/queues"
ADMIN = "/mq/admin/api/v1/organizations/default/environments/default/regions/us-east-1"
BROKER = "/api/v1/organizations/default/environments/default/destinations"
RULE = {"attribute": "$.a[0].b", "type": "numeric", "matcher": "range", "value": [1, 2]}
SETTINGS = {"delay_ms": 0, "lease_ms": 1000, "max_attempts": 3, "max_body_bytes": 10}
MESSAGE = {"body": "x", "id": "m", "attributes": {"a": 1}, "delay_ms": 1, "retention_ms": 99999, "group": "g"}
LISTENER = {"name": "shop", "url": "https://example.com/"}

REQUESTS = (
    Request("POST", f"{NATIVE}/queues", {"name": "new", "settings": SETTINGS, "annotations": {"a": 1}}),
    Request("PATCH", f"{NATIVE}/queues/orders", {"settings": SETTINGS, "annotations": {"a": 1}}),
    Request("POST", f"{NATIVE}/queues/orders/messages", MESSAGE),
    Request("POST", f"{NATIVE}/queues/orders/messages", {"json": {"a": 1}}),
    Request("POST", f"{NATIVE}/queues/orders/messages", {"messages": [MESSAGE, {"body_base64": "eA=="}]}),
    Request("POST", f"{NATIVE}/queues/orders/receive", {"limit": 1, "lease_ms": 1000, "wait_ms": 0}),
    Request("POST", f"{NATIVE}/queues/orders/ack", {"receipts": ["x"]}),
    Request("POST", f"{NATIVE}/queues/orders/move", {"target": "others", "seqs": [1]}),
    Request("POST", f"{NATIVE}/queues/orders/listeners", LISTENER),
    Request("POST", f"{NATIVE}/exchanges", {"name": "other"}),
    Request("PUT", f"{NATIVE}/exchanges/events/bindings/orders", {"rules": [RULE]}),
    Request("POST", f"{NATIVE}/exchanges/events/messages", MESSAGE),
    Request("POST", f"{NATIVE}/credentials", {"name": "c", "scopes": [{"action": "send", "queues": ["orders"]}]}),
    Request("PUT", f"{NATIVE}/queues/orders/stages/s/0", {"messages": [MESSAGE]}),
    Request("PUT", f"{NATIVE}/queues/orders/publications/p", {"number": 1, "stages": []}),
    Request("POST", CLOUDFLARE, {"queue_name": "cf"}),
    Request("PATCH", f"{CLOUDFLARE}/ID", {"settings": {"delivery_delay": 1, "message_retention_period": 60}}),
    Request("POST", f"{CLOUDFLARE}/ID/messages", {"body": {"a": 1}, "content_type": "json", "delay_seconds": 1}),
    Request("POST", f"{CLOUDFLARE}/ID/messages/batch", {"messages": [{"body": {"a": 1}, "delay_seconds": 1}]}),
    Request("POST", f"{CLOUDFLARE}/ID/messages/pull", {"batch_size": 1, "visibility_timeout_ms": 1000}),
    Request("POST", f"{CLOUDFLARE}/ID/messages/ack", {"acks": [{"lease_id": "x"}], "retries": [{"lease_id": "y"}]}),
    Request("POST", f"{CLOUDFLARE}/ID/consumers", {"type": "http_pull", "settings": {"batch_size": 1}}),
    Request("PUT", f"{ADMIN}/destinations/queues/ap", {"defaultTtl": 60000, "defaultLockTtl": 10000, "fifo": False}),
    Request("PUT", f"{ADMIN}/destinations/exchanges/ex", {"encrypted": True}),
    Request(
        "PUT",
        f"{ADMIN}/bindings/exchanges/events/queues/orders/rules/routing",
        {"routingRules": [{"propertyName": "$.a", "propertyType": "NUMERIC", "matcherType": "RANGE", "value": [1, 2]}]},
    ),
    Request(
        "PUT",
        f"{BROKER}/orders/messages/m",
        {"body": "x", "headers": {"deliveryDelay": 1, "ttl": 9, "x": "y"}, "properties": {"p": 1}},
    ),
    Request("PUT", f"{BROKER}/orders/messages", [{"body": "x", "headers": {"messageId": "a", "ttl": "9"}}]),
    Request("DELETE", f"{BROKER}/orders/messages", [{"messageId": "a", "lockId": "b"}]),
    Request("POST", "/queues", {"name": "discue", "schema": {"a": {"type": "number", "min": 1}}}),
    Request("POST", "/queues/ID/messages", {"name": "n", "data": "x"}),
    Request(
        "POST",
        "/queues/ID/listeners",
        {"name": "l", "notify_url": "https://example.com/a", "liveness_url": "https://example.com/b"},
    ),
    Request("POST", "/domains", {"alias": "x", "hostname": "example.com", "port": 443}),
    Request(
        "POST", "/api_keys", {"alias": "k", "scopes": [{"resource": "queues", "access": "read", "targets": ["*"]}]}
    ),
)
KEY = {"x-api-key": "root-token"}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[tuple[InProcess, str]]:
    """A Courier with a queue and an exchange that is bound to it, and the queue's id."""
    async with courier_app(tmp_path) as app:
        queue = (await app.post(f"{NATIVE}/queues", {"name": "orders"})).json()
        await app.post(f"{NATIVE}/queues", {"name": "others"})
        await app.post(f"{CLOUDFLARE}/{queue['id']}/consumers", {"type": "http_pull"})
        await app.post(f"{NATIVE}/exchanges", {"name": "events"})
        await app.request("PUT", f"{NATIVE}/exchanges/events/bindings/orders", json={"rules": []})
        yield app, queue["id"]


def mutations(document: Any) -> Iterator[tuple[str, bytes]]:
    """The document with one value after the other replaced by each hostile one, and the hostile ones alone."""
    mark = "\x1a"
    for place, marked in _marked(document, mark):
        text = msgspec.json.encode(marked)
        for name, value in HOSTILE.items():
            yield f"{name} at {place or 'the top'}", text.replace(msgspec.json.encode(mark), value)


def _marked(document: Any, mark: str, place: str = "") -> Iterator[tuple[str, Any]]:
    yield place, mark
    if isinstance(document, dict):
        for key, value in document.items():
            yield from ((p, document | {key: m}) for p, m in _marked(value, mark, f"{place}.{key}"))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            cut = document[:index], document[index + 1 :]
            yield from ((p, [*cut[0], m, *cut[1]]) for p, m in _marked(value, mark, f"{place}[{index}]"))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: f"{r.method} {re.sub(r'^.*default', '', r.path)}")
async def test_no_value_in_a_body_fails_the_server(request_: Request, app: tuple[InProcess, str]) -> None:
    client, queue_id = app
    failed = {}
    path = request_.path.replace("ID", queue_id)
    good = await client.request(request_.method, path, json=request_.body, headers=KEY)
    taken = good.status == 409 or b'"code":11004' in good.body
    assert good.status < 300 or taken, f"{good} is no answer to a good request"
    for what, body in mutations(request_.body):
        reply = await client.request(
            request_.method, path, body=body, headers=KEY | {"content-type": "application/json"}
        )
        if reply.status >= 500:
            failed[what] = reply.body[:80]
    assert failed == {}


KEPT = (
    Request("PATCH", f"{NATIVE}/queues/orders", {"annotations": {"a": 1}}),
    Request("PUT", f"{ADMIN}/destinations/queues/ap", {"defaultTtl": 60000}),
    Request("POST", "/queues", {"name": "discue", "schema": {"a": {"type": "number"}}}),
    Request("POST", f"{CLOUDFLARE}/ID/messages", {"body": {"a": 1}, "delay_seconds": 1}),
)


@pytest.mark.parametrize("request_", KEPT, ids=lambda r: f"{r.method} {r.path[-20:]}")
async def test_no_depth_at_the_edge_of_the_stack_fails_the_server(
    request_: Request, app: tuple[InProcess, str]
) -> None:
    """What can just be decoded must not fail where it is encoded, shown or kept, with more on the stack."""
    client, queue_id = app
    path = request_.path.replace("ID", queue_id)
    statuses = set()
    for _, marked in _marked(request_.body, "\x1a"):
        text = msgspec.json.encode(marked)
        for depth in range(880, 1_000):
            body = text.replace(b'"\\u001a"', b"[" * depth + b"]" * depth)
            statuses.add((await client.request(request_.method, path, body=body, headers=KEY)).status)
    assert max(statuses) < 500
    assert (await client.get(f"{NATIVE}/queues")).status == 200


LISTS = (
    f"{NATIVE}/queues?limit=",
    f"{NATIVE}/queues?after=",
    f"{NATIVE}/queues/orders/messages?limit=",
    f"{NATIVE}/queues/orders/messages?after=",
    f"{NATIVE}/queues/orders/messages?attribute=a:",
    f"{NATIVE}/queues/orders/messages?state=",
    f"{NATIVE}/queues/orders/stats?start=",
    f"{NATIVE}/queues/orders/stats?step=",
    f"{NATIVE}/journal?from=",
    f"{NATIVE}/journal?limit=",
    f"{CLOUDFLARE}?page=",
    f"{CLOUDFLARE}?per_page=",
    f"{CLOUDFLARE}?name=",
    f"{ADMIN}/destinations?limit=",
    f"{ADMIN}/destinations?offset=",
    f"{BROKER}/orders/messages?pollingTime=0&batchSize=",
    f"{BROKER}/orders/messages?pollingTime=0&lockTtl=",
    "/mq/stats/api/v1/organizations/default/environments/default/regions/us-east-1/queues/orders?period=60&endDate=",
    "/mq/stats/api/v1/organizations/default/environments/default/regions/us-east-1/queues/orders?startDate=0&period=",
    "/queues?page=",
    "/queues?per_page=",
    "/queues/ID/messages?page=",
    "/events?startAfterId=1&startAfter=",
    "/events?startAfter=1&startAfterId=",
    f"{NATIVE}/queues/",
    f"{CLOUDFLARE}/",
    "/queues/",
    f"{BROKER}/",
)


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path[-24:])
async def test_no_parameter_fails_the_server(path: str, app: tuple[InProcess, str]) -> None:
    client, queue_id = app
    failed = {}
    for name, value in HOSTILE.items():
        for text in (value[:8_000], value.strip(b'"')[:8_000]):
            reply = await client.get(path.replace("ID", queue_id) + quote(text), headers=KEY)
            if reply.status >= 500:
                failed[name] = reply.body[:80]
    assert failed == {}


@pytest.mark.parametrize("tail", ["message", "batch"])
async def test_no_header_of_a_worker_fails_the_server(tail: str, app: tuple[InProcess, str]) -> None:
    client, queue_id = app
    body = b"x" if tail == "message" else msgspec.json.encode({"messages": [{"body": "eA=="}]})
    path = f"{CLOUDFLARE}/{queue_id}/binding/{tail}"
    assert (await client.post(path, body=body)).status == 200
    for name, value in HOSTILE.items():
        for header in ("x-msg-delay-secs", "x-msg-fmt", "traceparent"):
            reply = await client.post(path, body=body, headers={header: value.decode("latin-1")})
            assert reply.status < 500, (name, header)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("path", ["$.a", "$.a[0].b", "$." + "9" * 5_000, "$.a[" + "9" * 5_000 + "]", "$.[٣]", "a"])
async def test_no_body_fails_a_rule_that_looks_into_it(name: str, path: str, app: tuple[InProcess, str]) -> None:
    client, _ = app
    for kind, matcher, value in (("string", "eq", "x"), ("numeric", "range", [1, 2]), ("string", "exists", True)):
        rule = {"attribute": path, "type": kind, "matcher": matcher, "value": value}
        settings = {"rules": [rule]}
        order = {"name": f"{kind} {matcher}", "url": "https://receiver.invalid/", "settings": settings}
        assert (await client.post(f"{NATIVE}/queues/orders/listeners", order)).status == 201
    for body in (HOSTILE[name], b'{"a":' + HOSTILE[name] + b"}", b'{"a":[{"b":' + HOSTILE[name] + b"}]}"):
        message = {"body_base64": base64.b64encode(body).decode()}
        assert (await client.post(f"{NATIVE}/queues/orders/messages", message)).status == 201


TEXTS = st.binary(max_size=20) | st.binary(max_size=20).map(lambda inner: b'{"a":["' + inner + b'"]}')


@given(TEXTS, st.text(alphabet="$.[]9a٣\u0000", max_size=40))
def test_a_rule_holds_or_does_not_whatever_the_body_and_the_path(body: bytes, path: str) -> None:
    rule = Rule(attribute=f"$.{path}", type=RuleType.STRING, matcher=Matcher.EQ, value="x")
    assert matches([rule], {}, Document(body)) in {True, False}


@given(st.text(max_size=30) | st.from_regex(r"[0-9]{0,6000}", fullmatch=True))
def test_a_whole_number_is_a_few_ascii_digits(text: str) -> None:
    number = whole_number(text)
    assert (number is not None) is bool(re.fullmatch(r"[0-9]{1,18}", text))


# -- Arrow ----------------------------------------------------------------------------------------------------


def arrow_stream(column: str = "body", **more: Any) -> bytes:
    table = pa.table({column: pa.array([b"x"], pa.binary()), **more})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


BAD_ARROW = {
    "a column name that is not UTF-8": arrow_stream("name-of-column").replace(b"name-of-column", b"\xff" * 14),
    "the column name body that is not UTF-8": arrow_stream().replace(b"body", b"bod\xff"),
    "attributes nested deeply": arrow_stream(attributes=pa.array(["[" * DEEP])),
    "attributes of 5,000 digits": arrow_stream(attributes=pa.array(['{"a":' + "9" * 5_000 + "}"])),
    "attributes that are no object": arrow_stream(attributes=pa.array(["[1]"])),
    "attributes that are not UTF-8": arrow_stream(attributes=pa.array(['{"a":"name"}'])).replace(b"name", b"\xff" * 4),
    "a time zone that is not UTF-8": arrow_stream(at=pa.array([1], pa.timestamp("ms", "Mars/Olympus"))).replace(
        b"Mars/Olympus", b"\xff" * 12
    ),
}


@pytest.mark.parametrize("body", BAD_ARROW.values(), ids=BAD_ARROW)
async def test_arrow_columns_that_cannot_be_read_are_the_callers_to_fix(
    body: bytes, app: tuple[InProcess, str]
) -> None:
    client, _ = app
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    reply = await client.request("PUT", f"{NATIVE}/queues/orders/stages/s/0", body=body, headers=headers)
    assert reply.status == 400, reply
