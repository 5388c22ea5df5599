"""Cloudflare's words and ours: the translation in both directions, without a server."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.model import Message, Queue, QueueSettings, State
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Refused
from couriermq.dialects.cloudflare.limits import NEW_QUEUE
from couriermq.dialects.cloudflare.wire import bodies
from couriermq.dialects.cloudflare.wire.fields import CONSUMER, QUEUE, read_fields, write_fields
from couriermq.dialects.cloudflare.wire.push import read_push
from couriermq.dialects.cloudflare.wire.queues import check_name, cut
from couriermq.dialects.cloudflare.wire.reading import instant, pointer

QUEUE_OF_NO_STORE = Queue(key=1, id="q", tenant="t", name="orders", settings=NEW_QUEUE)

seconds = st.integers(0, limits.DELAY_S) | st.integers(0, limits.DELAY_S).map(float)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "delivery_delay": seconds,
            "delivery_paused": st.booleans(),
            "message_retention_period": st.integers(*limits.RETENTION_S),
        },
    )
)
def test_queue_settings_read_and_written_are_the_same(document: dict[str, object]) -> None:
    settings = msgspec.structs.replace(NEW_QUEUE, **read_fields(QUEUE, document, code=1))
    assert write_fields(QUEUE, settings) | document == write_fields(QUEUE, settings)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "max_retries": st.integers(0, limits.RETRIES),
            "retry_delay": seconds,
            "visibility_timeout_ms": st.integers(0, limits.LEASE_MS),
        },
    )
)
def test_consumer_settings_read_and_written_are_the_same(document: dict[str, object]) -> None:
    settings = msgspec.structs.replace(NEW_QUEUE, **read_fields(CONSUMER, document, code=1))
    assert write_fields(CONSUMER, settings) | document == write_fields(CONSUMER, settings)


def test_null_in_settings_is_the_same_as_absent() -> None:
    assert read_fields(CONSUMER, {"max_retries": None, "unknown": 5}, code=1) == {}


def test_no_limit_on_attempts_is_written_as_null() -> None:
    assert write_fields(CONSUMER, QueueSettings())["max_retries"] is None


@pytest.mark.parametrize(
    ("content_type", "word"),
    [
        ("text/plain; charset=utf-8", "text"),
        ("text/html", "text"),
        ("TEXT/PLAIN", "text"),
        ("application/json", "json"),
        ("application/json; charset=utf-8", "json"),
        ("application/cloudevents+json", "json"),
        ("application/octet-stream", "bytes"),
        ("application/x-v8", "v8"),
        ("application/xml", "bytes"),
        ("", "bytes"),
    ],
)
def test_a_mime_type_is_shown_as_one_of_four_words(content_type: str, word: str) -> None:
    assert bodies.word_of(content_type) == word


def message(body: bytes, content_type: str) -> Message:
    return Message(
        seq=1,
        id="m",
        state=State.READY,
        body=body,
        content_type=content_type,
        attributes={},
        attempts=0,
        sent_at=0,
        entered_at=0,
        due_at=0,
        discard_at=0,
    )


def test_text_that_is_not_utf_8_is_shown_as_the_bytes_that_it_is() -> None:
    for content_type in ("text/plain; charset=latin-1", "application/json"):
        assert bodies.written(message(b"\xe9", content_type), json_plain=True) == ("bytes", "6Q==")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda children: st.lists(children) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), children),
)  # fmt: skip


@given(json_values)
def test_any_json_is_stored_in_the_spelling_in_which_it_came(value: object) -> None:
    text = msgspec.json.encode(value)
    if isinstance(value, str):
        with pytest.raises(Refused):
            read_push(b'{"body":' + text + b"}", QUEUE_OF_NO_STORE, trace=None)
        return
    draft = read_push(b'{"body": ' + text + b' ,"content_type":"json"}', QUEUE_OF_NO_STORE, trace=None)
    assert (draft.body, draft.content_type) == (text, "application/json")
    assert bodies.written(message(draft.body, draft.content_type), json_plain=True) == ("json", text.decode())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_out_as_it_went_in(text: str) -> None:
    order = msgspec.json.encode({"body": text, "content_type": "text"})
    draft = read_push(order, QUEUE_OF_NO_STORE, trace="00-1-2-01")
    assert bodies.written(message(draft.body, draft.content_type), json_plain=True) == ("text", text)
    assert draft.trace == "00-1-2-01"


@given(st.binary(max_size=2_000))
def test_no_bytes_at_all_can_do_more_harm_than_be_refused(body: bytes) -> None:
    with contextlib.suppress(Refused):
        read_push(body, QUEUE_OF_NO_STORE, trace=None)


@given(st.text(max_size=70))
def test_a_name_is_taken_exactly_when_the_vendors_rule_holds(name: str) -> None:
    letters = set("abcdefghijklmnopqrstuvwxyz0123456789")
    good = 1 <= len(name) <= 63 and set(name) <= letters | {"-"} and name[0] in letters and name[-1] in letters
    if good:
        assert check_name(name) == name
    else:
        with pytest.raises(Refused):
            check_name(name)


@given(st.integers(0, 50), st.integers(1, 12))
def test_pages_hold_everything_once_and_end_with_an_empty_one(total: int, per_page: int) -> None:
    items, page = list(range(total)), 1
    seen: list[int] = []
    while True:
        shown, info = cut(items, page, per_page)
        assert (info.count, info.total_count) == (len(shown), total)
        if not shown:
            break
        seen += shown
        page += 1
    assert seen == items
    assert page == -(-total // per_page) + 1


def test_an_instant_is_written_as_the_vendor_writes_it() -> None:
    assert instant(1_667_145_914_966) == "2022-10-30T16:05:14.966000Z"


def test_a_place_is_written_as_a_json_pointer() -> None:
    assert [pointer(path) for path in ("body", "messages[3].body", ".acks[0]")] == [
        "/body",
        "/messages/3/body",
        "/acks/0",
    ]
