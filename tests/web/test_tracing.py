"""A trace crosses the queue: from the sender's span to a link of the receiver's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from couriermq.core.model import Draft
from couriermq.web.tracing import Tracing
from tests.support.inprocess import InProcess, courier_app

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
QUEUES = "/courier/v1/tenants/default/queues"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
async def app(tmp_path: Path, exporter: InMemorySpanExporter) -> AsyncIterator[InProcess]:
    tracing = Tracing.to_exporter(exporter)
    async with courier_app(tmp_path, dialects=("native",), tracing=tracing) as app:
        yield app
    tracing.close()


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name.rpartition("/")[2]: span for span in exporter.get_finished_spans()}


async def test_a_request_is_a_span_under_its_callers(app: InProcess, exporter: InMemorySpanExporter) -> None:
    await app.post(QUEUES, json={"name": "orders"}, headers={"traceparent": TRACEPARENT})
    (span,) = exporter.get_finished_spans()
    assert span.name == "POST /courier/v1/tenants/{tenant}/queues"
    assert format_trace_id(span.context.trace_id) == TRACEPARENT.split("-")[1]
    assert span.parent is not None
    assert span.attributes is not None
    assert format_span_id(span.parent.span_id) == TRACEPARENT.split("-")[2]
    assert span.attributes["http.response.status_code"] == 201
    assert (span.attributes["courier.dialect"], span.attributes["courier.principal"]) == ("native", "root")


async def test_whoever_receives_a_message_is_linked_to_whoever_sent_it(
    app: InProcess, exporter: InMemorySpanExporter
) -> None:
    await app.post(QUEUES, json={"name": "orders"})
    await app.post(f"{QUEUES}/orders/messages", json={"body": "hi"}, headers={"traceparent": TRACEPARENT})
    received = await app.post(f"{QUEUES}/orders/receive", json={})
    sender, receiver = spans(exporter)["messages"], spans(exporter)["receive"]
    (link,) = receiver.links
    assert (link.context.trace_id, link.context.span_id) == (sender.context.trace_id, sender.context.span_id)
    trace = received.json()["leases"][0]["message"]["trace"]
    assert trace.split("-")[1:3] == [TRACEPARENT.split("-")[1], format_span_id(sender.context.span_id)]


async def test_without_tracing_the_callers_own_span_is_carried(tmp_path: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        await app.post(QUEUES, json={"name": "orders"})
        await app.post(f"{QUEUES}/orders/messages", json={"body": "hi"}, headers={"traceparent": TRACEPARENT})
        received = await app.post(f"{QUEUES}/orders/receive", json={})
        assert received.json()["leases"][0]["message"]["trace"] == TRACEPARENT


async def test_a_bug_is_an_error_of_its_span(
    app: InProcess, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app.services.catalog, "create_queue", None)
    assert (await app.post(QUEUES, json={"name": "orders"})).status == 500
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR


async def test_a_traceparent_that_makes_no_sense_starts_a_trace_of_its_own(
    app: InProcess, exporter: InMemorySpanExporter
) -> None:
    await app.post(QUEUES, json={"name": "orders"}, headers={"traceparent": "00-zz-1"})
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


async def test_a_message_whose_trace_makes_no_sense_is_received_without_a_link(
    app: InProcess, exporter: InMemorySpanExporter
) -> None:
    await app.post(QUEUES, json={"name": "orders"})
    queue = app.services.catalog.queue("default", "orders")
    await app.services.broker.send(queue, [Draft(body=b"hi", trace="nonsense")], principal="root")
    assert (await app.post(f"{QUEUES}/orders/receive", json={})).status == 200
    assert spans(exporter)["receive"].links == ()
