"""What the other dialects cost, beside the native one on the same server and the bare server in the same run."""

from statistics import median

import msgspec

from benchmarks.bench import Bench, Meter, check_stored
from benchmarks.client import BODY, QUEUES, Client
from benchmarks.load import Chain, Request
from benchmarks.measure import Probe, Row, Turns, alternate
from benchmarks.processes import Courier

NATIVE = f"{QUEUES}/orders"
CLOUDFLARE = "/client/v4/accounts/default/queues"
ANYPOINT = "/api/v1/organizations/default/environments/default/destinations/orders"
CLOUDFLARE_BAR = 0.9
SENDERS = 128
BATCH_SENDERS = 32
RECEIVERS = 16


class Sending(msgspec.Struct, frozen=True):
    """A dialect's send and its native twin, which carries as many messages."""

    name: str
    what: str
    request: Request
    twin: Request
    connections: int
    bar: float | None = None


class Receiving(msgspec.Struct, frozen=True):
    """A dialect's receive and ack and its native twin."""

    name: str
    what: str
    work: Chain
    fill: int
    bar: float | None = None


def cloudflare_push(bench: Bench) -> list[Row]:
    with bench.courier() as (server, client):
        body = bench.file({"body": BODY, "content_type": "text"})
        request = Request("POST", f"{_cloudflare_queue(client)}/messages", body)
        sending = Sending("cf-push", "Cloudflare push", request, _native(bench, 1), SENDERS, CLOUDFLARE_BAR)
        return [_compare_sending(bench, server, client, sending)]


def cloudflare_bulk_push(bench: Bench) -> list[Row]:
    with bench.courier() as (server, client):
        body = bench.file({"messages": [{"body": BODY, "content_type": "text"}] * 100})
        request = Request("POST", f"{_cloudflare_queue(client)}/messages/batch", body, messages=100)
        sending = Sending("cf-bulk", "Cloudflare push 100", request, _native(bench, 100), BATCH_SENDERS, CLOUDFLARE_BAR)
        return [_compare_sending(bench, server, client, sending)]


def cloudflare_pull(bench: Bench) -> list[Row]:
    with bench.courier() as (server, client):
        work = Chain("cloudflare", _cloudflare_queue(client), 100)
        receiving = Receiving("cf-pull", "Cloudflare pull 100, ack 100", work, 50_000, CLOUDFLARE_BAR)
        return [_compare_receiving(bench, server, client, receiving)]


def anypoint_publish(bench: Bench) -> list[Row]:
    with bench.courier() as (server, client):
        client.create_queue("orders")
        request = Request("PUT", f"{ANYPOINT}/messages/{{n}}", bench.file({"body": BODY}))
        return [
            _compare_sending(
                bench, server, client, Sending("mq-publish", "Anypoint publish", request, _native(bench, 1), SENDERS)
            )
        ]


def anypoint_publish_batch(bench: Bench) -> list[Row]:
    with bench.courier() as (server, client):
        client.create_queue("orders")
        messages = [{"headers": {"messageId": f"order-{n}"}, "body": BODY} for n in range(10)]
        request = Request("PUT", f"{ANYPOINT}/messages", bench.file(messages), messages=10)
        sending = Sending("mq-batch", "Anypoint publish 10", request, _native(bench, 10), BATCH_SENDERS)
        return [_compare_sending(bench, server, client, sending)]


def anypoint_consume(bench: Bench) -> list[Row]:
    with bench.courier() as (server, client):
        client.create_queue("orders")
        receiving = Receiving("mq-consume", "Anypoint consume 10, ack 10", Chain("anypoint", ANYPOINT, 10), 20_000)
        return [_compare_receiving(bench, server, client, receiving)]


def _cloudflare_queue(client: Client) -> str:
    """The path of a queue that may be pulled from."""
    path = f"{CLOUDFLARE}/{client.create_queue('orders')}"
    client.call("POST", f"{path}/consumers", {"type": "http_pull"})
    return path


def _native(bench: Bench, count: int) -> Request:
    document = {"body": BODY} if count == 1 else {"messages": [{"body": BODY}] * count}
    return Request("POST", f"{NATIVE}/messages", bench.file(document), messages=count)


def _compare_sending(bench: Bench, server: Courier, client: Client, sending: Sending) -> Row:
    connections = sending.connections
    native = bench.send_meter(server, sending.twin, connections=connections)
    subject = bench.send_meter(server, sending.request, connections=connections)
    turns = alternate(native, [subject, bench.bare_meter(connections)], rounds=bench.rounds)
    check_stored(client, [native, subject])
    return _row(sending.name, sending.what, turns, native, subject, sending.bar)


def _compare_receiving(bench: Bench, server: Courier, client: Client, receiving: Receiving) -> Row:
    native = bench.chain_meter(server, Chain("native", NATIVE, receiving.work.limit), clients=RECEIVERS)
    subject = bench.chain_meter(server, receiving.work, clients=RECEIVERS)

    def refilled(meter: Meter) -> Probe:
        def probe() -> float:
            client.fill("orders", receiving.fill)
            return meter()

        return probe

    bare = bench.bare_meter(RECEIVERS)
    turns = alternate(refilled(native), [refilled(subject), bare], rounds=bench.rounds)
    return _row(receiving.name, receiving.what, turns, native, subject, receiving.bar)


def _row(name: str, what: str, turns: Turns, native: Meter, subject: Meter, bar: float | None) -> Row:
    ours, bare = turns.others
    return Row(
        name=name,
        what=what,
        value=turns.figure(),
        unit="messages/s",
        reference="native",
        ratios=turns.ratios(),
        bar=bar,
        per_bare=median(s / b for s, b in zip(ours, bare, strict=True)),
        cpu_ratio=native.cpu_us / subject.cpu_us,
        cpu_us=subject.cpu_us,
        reference_cpu_us=native.cpu_us,
        notes=subject.latency(),
    )
