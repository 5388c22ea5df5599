"""OpenTelemetry traces, for servers that are told where to send them. Needs the extra `tracing`.

A request is a span under the caller's `traceparent`. A message carries the span that sent it, and the span that
receives it links back: that is how a trace crosses the queue, however long the message waits.
"""

from collections.abc import Awaitable, Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.trace import Span, SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from couriermq import __version__
from couriermq.broker import Broker
from couriermq.core.model import Lease, Queue
from couriermq.web.call import Call, Header, Reply

_w3c = TraceContextTextMapPropagator()


class Tracing:
    """Makes spans of requests and sends them away in the background."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("courier", __version__)

    @classmethod
    def to_endpoint(cls, endpoint: str) -> "Tracing":
        """Traces to an OTLP collector over HTTP."""
        return cls(_provider(BatchSpanProcessor(OTLPSpanExporter(endpoint.rstrip("/") + "/v1/traces"))))

    @classmethod
    def to_exporter(cls, exporter: SpanExporter) -> "Tracing":
        """Traces to an exporter at once, each on its own."""
        return cls(_provider(SimpleSpanProcessor(exporter)))

    async def request(self, route: str, dialect: str, call: Call, answer: Awaitable[Reply]) -> Reply:
        """The answer, inside a span; the call's `traceparent` is this span's from here on."""
        parent = _w3c.extract({"traceparent": call.header(b"traceparent") or ""})
        facts = {"http.request.method": call.method, "http.route": route, "courier.dialect": dialect}
        with self._tracer.start_as_current_span(
            f"{call.method} {route}", parent, kind=SpanKind.SERVER, attributes=facts
        ) as span:
            call.replace_headers(_with_traceparent(call.raw_headers))
            reply = await answer
            _conclude(span, call, reply)
            return reply

    @property
    def broker(self) -> type[Broker]:
        """The broker that knows of spans."""
        return TracedBroker

    def close(self) -> None:
        """Send the spans that wait."""
        self._provider.shutdown()


class TracedBroker(Broker):
    """A broker whose receivers are linked to the senders of what they receive."""

    async def receive(self, queue: Queue, **order: Any) -> list[Lease]:
        leases = await super().receive(queue, **order)
        span = trace.get_current_span()
        for lease in leases:
            if lease.message.trace is not None:
                link_to(span, lease.message.trace)
        return leases


def link_to(span: Span, traceparent: str) -> None:
    """Link a span to the one that a `traceparent` names; one that is not well formed is left out."""
    context = trace.get_current_span(_w3c.extract({"traceparent": traceparent})).get_span_context()
    if context.is_valid:
        span.add_link(context)


def _provider(processor: BatchSpanProcessor | SimpleSpanProcessor) -> TracerProvider:
    provider = TracerProvider(resource=Resource.create({"service.name": "courier", "service.version": __version__}))
    provider.add_span_processor(processor)
    return provider


def _with_traceparent(headers: Any) -> list[Header]:
    carrier: dict[str, str] = {}
    _w3c.inject(carrier)
    others = [header for header in headers if header[0] != b"traceparent"]
    return others + [(name.encode(), value.encode()) for name, value in carrier.items()]


def _conclude(span: Span, call: Call, reply: Reply) -> None:
    facts: Mapping[str, str | int] = {
        "http.response.status_code": reply.status,
        "courier.principal": call.principal.id,
    }
    span.set_attributes(dict(facts))
    if reply.status >= 500:
        span.set_status(trace.StatusCode.ERROR)
