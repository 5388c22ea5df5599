"""Between Anypoint's JSON and the broker's drafts and leases, without a server."""

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.errors import Invalid
from couriermq.core.model import Draft, Lease, Message, State
from couriermq.dialects.anypoint import wire

scalars = (
    st.text(max_size=20) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
) | st.booleans()
notes = st.sampled_from([wire.CUSTOM_HEADERS + end for end in ("", "+", "++", "-", "+x")])
names = notes | st.text(min_size=1, max_size=10)
custom_names = names.filter(lambda name: name not in wire.HEADERS)


def leased(draft: Draft) -> Lease:
    """The lease that a consumer of the draft gets."""
    message = Message(
        seq=1,
        id=draft.id or "minted",
        state=State.LEASED,
        body=draft.body,
        content_type=draft.content_type,
        attributes=draft.attributes,
        attempts=1,
        sent_at=0,
        entered_at=0,
        due_at=0,
        discard_at=0,
        delay_ms=draft.delay_ms or 0,
        retention_ms=draft.retention_ms,
        group=draft.group,
        trace=draft.trace,
    )
    return Lease(message, "receipt", 0)


def consumed(draft: Draft, visibility: str = wire.FULL) -> Any:
    [message] = msgspec.json.decode(wire.write_leases([leased(draft)], visibility))
    return message


@given(
    st.text(),
    st.dictionaries(names, scalars, max_size=8),
    st.dictionaries(custom_names, scalars, max_size=8),
    st.sampled_from([(), ("messageId",)]),
)
def test_properties_body_and_custom_headers_survive(
    body: str, properties: dict[str, Any], headers: dict[str, Any], routed: tuple[str, ...]
) -> None:
    sent = msgspec.json.decode(
        msgspec.json.encode({"body": body, "properties": properties, "headers": headers}), type=wire.WireMessage
    )
    message = consumed(wire.read_draft(sent, message_id="m", queue=None, routed=routed))
    assert message["body"] == body
    if "contentType" not in properties:
        message["properties"].pop("contentType", None)  # a header of that name says what the message is, too
    assert message["properties"] == properties
    shown = {name: value for name, value in message["headers"].items() if name in headers}
    assert shown == {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in headers.items()
    }


@given(st.binary())
def test_every_body_can_be_read(body: bytes) -> None:
    message = consumed(Draft(body=body, id="m", content_type="application/octet-stream"))
    if message["properties"].get("contentTransferEncoding") == "base64":
        assert base64.b64decode(message["body"]) == body
    else:
        assert message["body"].encode() == body


@pytest.mark.parametrize(
    ("content_type", "properties"),
    [
        ("text/plain; charset=UTF-8", {}),
        ("text/plain; charset=utf-8", {"contentType": "text/plain; charset=utf-8"}),
        ("application/json", {"contentType": "application/json"}),
    ],
)
def test_a_content_type_from_elsewhere_becomes_a_property(content_type: str, properties: dict[str, str]) -> None:
    assert consumed(Draft(body=b"x", content_type=content_type))["properties"] == properties


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        ("application/json", "application/json"),
        ("", wire.DEFAULT_CONTENT_TYPE),
        (5, wire.DEFAULT_CONTENT_TYPE),
        ("x" * 257, wire.DEFAULT_CONTENT_TYPE),
    ],
)
def test_the_property_content_type_is_the_messages(value: Any, content_type: str) -> None:
    sent = wire.WireMessage(body="", properties={"contentType": value})
    draft = wire.read_draft(sent, message_id="m", queue=None)
    assert draft.content_type == content_type
    assert consumed(draft)["properties"] == {"contentType": value}


def test_somebody_elses_attribute_of_our_name_is_a_property() -> None:
    for value in ("not json", "[1]", '[{"a": [1]}, []]', 5):
        draft = Draft(body=b"", content_type=wire.DEFAULT_CONTENT_TYPE, attributes={wire.CUSTOM_HEADERS: value})
        assert consumed(draft)["properties"] == {wire.CUSTOM_HEADERS: value}


@pytest.mark.parametrize("name", [wire.CUSTOM_HEADERS, f"{wire.CUSTOM_HEADERS}+"])
def test_a_property_of_the_name_of_our_note_is_kept_and_forges_no_header(name: str) -> None:
    properties: dict[str, wire.Scalar | None] = {name: '[{"n": 1}, []]', "n": 1}
    sent = wire.WireMessage(body="", properties={**properties})
    message = consumed(wire.read_draft(sent, message_id="m", queue=None))
    assert message["properties"] == properties
    assert "n" not in message["headers"]


@pytest.mark.parametrize(("value", "number"), [(None, None), ("", None), (5, 5), ("5", 5), (5.0, 5), ("-5", -5)])
def test_a_whole_number_is_read_however_it_is_written(value: Any, number: int | None) -> None:
    assert wire.whole_or_none("ttl", value) == number


@pytest.mark.parametrize("value", [True, 5.5, "5.0", "x", "٣", "1" * 21, "1_0", " 5", "5\n", "+5", "--5", "-", [5], {}])
def test_what_is_no_whole_number_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="ttl must be a whole number"):
        wire.whole_or_none("ttl", value)
