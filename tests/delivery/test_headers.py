"""The head of a delivery, and what nobody can smuggle into it."""

import re
from typing import Any

import pytest

from couriermq.core.errors import Invalid
from couriermq.core.model import Message, Secret, State
from couriermq.core.surrogates import storable
from couriermq.core.webhook_ids import derived
from couriermq.delivery.headers import check_headers, event_lines, fixed_lines, message_lines

NOW = 1_700_000_000_500
SECRET = Secret(value="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", created_at=0)


def message(**facts: Any) -> Message:
    defaults = {
        "seq": 1, "id": "m1", "state": State.LEASED, "body": b"hello", "content_type": "text/plain", "attributes": {},
        "attempts": 1, "sent_at": NOW, "entered_at": NOW, "due_at": NOW, "discard_at": NOW,
    }  # fmt: skip
    return Message(**{**defaults, **facts})


def lines(**facts: Any) -> dict[str, str]:
    return read(message_lines(message(**facts), (SECRET,), now=NOW, wall=NOW))


def read(text: bytes) -> dict[str, str]:
    parts = text.decode().split("\r\n")
    assert parts.pop() == ""
    return dict(part.split(": ", 1) for part in parts)


def test_half_a_character_in_an_attribute_is_replaced_in_its_header() -> None:
    lines = event_lines(message(attributes={"note": storable("cut \ud83d")}), tenant="t", queue="q")
    assert b"ce-note: cut %EF%BF%BD\r\n" in lines


def test_a_delivery_says_what_it_is_and_proves_whose() -> None:
    head = lines()
    assert head["Content-Type"] == "text/plain"
    assert head["webhook-id"] == "m1"
    assert head["webhook-timestamp"] == "1700000000"
    assert head["webhook-signature"].startswith("v1,")


def test_without_a_secret_there_is_no_signature() -> None:
    assert b"webhook-signature" not in message_lines(message(), (), now=NOW, wall=NOW)


def test_a_trace_goes_on() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert lines(trace=trace)["traceparent"] == trace
    assert "traceparent" not in lines(trace="x\r\nevil: 1")


@pytest.mark.parametrize("bad", ["text/plain\r\nevil: 1", "text/plain\nevil: 1", "t\x00", "tüxt/plain", ""])
def test_a_content_type_cannot_carry_a_header_in(bad: str) -> None:
    assert lines(content_type=bad)["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("message_id", "begins", "shown"),
    [
        ("order.1", "order-1_", "order.1"),
        ("a\r\nevil: 1", "a-evil-1_", "a%0D%0Aevil:%201"),
        ("größe", "gr-e_", "gr%C3%B6%C3%9Fe"),
        ("100%", "100-_", "100%25"),
        ("x" * 256, "x" * 64 + "_", "x" * 256),
    ],
)
def test_an_id_that_does_not_fit_is_derived_and_the_original_is_beside_it(
    message_id: str, begins: str, shown: str
) -> None:
    derived_id = derived(message_id, sent_at=NOW, body=b"hello")
    head = lines(id=message_id, attributes={"webhook-id": derived_id})
    assert head["webhook-id"] == derived_id
    assert re.fullmatch(f"{begins}[0-9a-f]{{20}}", derived_id)
    assert head["courier-message-id"] == shown
    if "x" not in message_id:  # a copy that an earlier version of Courier has made
        assert lines(id=message_id)["webhook-id"] == derived_id


def test_an_id_that_fits_is_used_as_it_is() -> None:
    assert lines(id="order-1_2")["webhook-id"] == lines(id="order-1_2")["courier-message-id"] == "order-1_2"
    assert lines(id="m1", attributes={"webhook-id": "a b"})["webhook-id"] == "m1"


def test_the_fixed_lines_name_us_unless_the_listener_does() -> None:
    assert b"User-Agent: Courier/" in fixed_lines({}, None)
    assert b"Courier/" not in fixed_lines({"user-agent": "mine"}, None)


def test_an_authorization_wins_over_a_header_of_that_name() -> None:
    text = fixed_lines({"authorization": "old"}, "Bearer new")
    assert b"Bearer new" in text
    assert b"old" not in text


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil"},
        {"content-length": "1"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Webhook-Id": "x"},
        {"ce-id": "x"},
        {"x y": "1"},
        {"x:": "1"},
        {"": "1"},
        {"x": "a\r\nb: c"},
        {"x": "ü"},
        {"x": "a" * 5_000},
        {f"x{n}": "1" for n in range(60)},
    ],
)
def test_headers_that_cannot_be_a_listeners_own(headers: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        check_headers(headers)


def test_headers_that_can() -> None:
    check_headers({"X-Shop": "1", "Authorization": "Bearer x", "Cookie": "a=b"})


def test_cloudevents_in_binary_mode() -> None:
    event = read(
        event_lines(
            message(attributes={"type": "order.paid", "region": "eu", "n": 5, "ok": True, "Not-An-Extension": "x"}),
            tenant="acme",
            queue="orders",
        )
    )
    assert event == {
        "ce-specversion": "1.0",
        "ce-id": "m1",
        "ce-source": "/tenants/acme/queues/orders",
        "ce-type": "order.paid",
        "ce-time": "2023-11-14T22:13:20.500Z",
        "ce-region": "eu",
        "ce-n": "5",
        "ce-ok": "true",
    }


def test_an_attribute_cannot_carry_a_header_in_or_pose_as_the_event() -> None:
    event = read(
        event_lines(message(attributes={"note": "a\r\nevil: 1", "id": "x", "time": "x"}), tenant="t", queue="q")
    )
    assert event["ce-note"] == "a%0D%0Aevil: 1"
    assert event["ce-id"] == "m1"
