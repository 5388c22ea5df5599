"""What a Worker's handler made of a batch, and what follows for each message."""

import json
from typing import Any

import pytest

from couriermq.core.hex_ids import hex_of
from couriermq.core.model import DAY, Ack, Lease, Message, Release, State
from couriermq.delivery.batch_result import BatchResult, read_result, settlements


def lease(message_id: str) -> Lease:
    message = Message(
        seq=1, id=message_id, state=State.LEASED, body=b"", content_type="text/plain", attributes={}, attempts=1,
        sent_at=0, entered_at=0, due_at=0, discard_at=0,
    )  # fmt: skip
    return Lease(message, f"receipt of {message_id}", 0)


def result(**facts: Any) -> BatchResult:
    read = read_result(json.dumps({"outcome": "ok", **facts}).encode())
    assert read is not None
    return read


def settled(**facts: Any) -> list[str]:
    """How the messages a and b are settled: `ack`, or `retry` with its delay in milliseconds."""
    return [
        "ack" if isinstance(each, Ack) else f"retry {each.delay_ms}"
        for each in settlements(result(**facts), [lease("a"), lease("b")])
    ]


A, B = hex_of("a"), hex_of("b")
"""The ids by which a Worker knows the messages."""
RETRY_B = {"retryMessages": [{"msgId": B, "delaySeconds": 7}]}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ["ack", "ack"]),
        ({"outcome": "exception"}, ["retry None", "retry None"]),
        ({"outcome": "exceededCpu"}, ["retry None", "retry None"]),
        ({"outcome": "exception", "explicitAcks": [A]}, ["ack", "retry None"]),
        ({"outcome": "exception", "ackAll": True}, ["ack", "ack"]),
        ({"ackAll": True, **RETRY_B}, ["ack", "retry 7000"]),
        (RETRY_B, ["ack", "retry 7000"]),
        ({"retryMessages": [{"msgId": B}]}, ["ack", "retry None"]),
        ({"retryBatch": {"retry": True}}, ["retry None", "retry None"]),
        ({"retryBatch": {"retry": True, "delaySeconds": 3}, **RETRY_B}, ["retry 3000", "retry 7000"]),
        ({"retryBatch": {"retry": True, "delaySeconds": 0}, "explicitAcks": [B]}, ["retry 0", "ack"]),
        ({"retryBatch": {"retry": True, "delaySeconds": 1e9}}, ["retry 86400000", "retry 86400000"]),
        ({"retryBatch": {"retry": True, "delaySeconds": -1}}, ["retry 0", "retry 0"]),
        ({"explicitAcks": ["stranger"]}, ["ack", "ack"]),
    ],
)
def test_each_message_is_settled(facts: dict[str, Any], expected: list[str]) -> None:
    assert settled(**facts) == expected


@pytest.mark.parametrize(("seconds", "delay_ms"), [(1e306, DAY), (-1e306, 0), (1.5, 1_500)])
def test_a_delay_is_between_none_and_a_day(seconds: float, delay_ms: int) -> None:
    assert settled(retryBatch={"retry": True, "delaySeconds": seconds}) == [f"retry {delay_ms}"] * 2


def test_settlements_are_made_with_the_receipts_of_the_leases() -> None:
    assert settlements(result(**RETRY_B), [lease("a"), lease("b")]) == [
        Ack("receipt of a"),
        Release("receipt of b", 7_000),
    ]


@pytest.mark.parametrize("body", [b"", b"Hello World!", b"{}", b"[]", b'{"outcome": 1}', b"\xff"])
def test_what_is_no_result_is_none(body: bytes) -> None:
    assert read_result(body) is None
