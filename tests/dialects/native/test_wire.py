"""What the native wire reads and writes, without a server."""

from typing import Any

import msgspec
import pytest

from couriermq.core import model
from couriermq.core.errors import BatchTooLarge, Invalid, QueueNotFound
from couriermq.core.model import Death, Draft, QueueSettings, State
from couriermq.dialects.native.wire import choices, credentials, events, messages, queues, settlements
from couriermq.dialects.native.wire.paging import PageQuery, page_of
from couriermq.dialects.native.wire.reading import read
from couriermq.web.errors import MalformedRequest


def draft(body: bytes) -> Draft:
    return messages.draft_of(read(messages.SEND, body), None)


def refusal(decoder: "msgspec.json.Decoder[Any]", body: bytes) -> Invalid:
    with pytest.raises(Invalid) as caught:
        read(decoder, body)
    return caught.value


def message(body: bytes = b"hello", **more: object) -> model.Message:
    given = {
        "seq": 7, "id": "m", "state": State.READY, "body": body, "content_type": "text/plain", "attributes": {},
        "attempts": 0, "sent_at": 1, "entered_at": 2, "due_at": 3, "discard_at": 4,
    }  # fmt: skip
    return model.Message(**(given | more))  # type: ignore[arg-type]


def written(value: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(value))


# -- messages in ----------------------------------------------------------------------------------------------


def test_text_is_kept_as_utf8_with_its_type() -> None:
    assert draft('{"body": "grüße"}'.encode()) == Draft(body="grüße".encode(), content_type="text/plain; charset=utf-8")


def test_base64_is_kept_as_bytes() -> None:
    assert draft(b'{"body_base64": "/wA="}') == Draft(body=b"\xff\x00", content_type="application/octet-stream")


@pytest.mark.parametrize("text", ['{"b" : 1.0,\n "a":1e3, "b":2}', "null", "[ ]", '"\\u00fc"', "-0.50", "true"])
def test_json_is_kept_exactly_as_it_was_spelled(text: str) -> None:
    assert draft(b'{"json": %s }' % text.encode()) == Draft(body=text.encode(), content_type="application/json")


def test_a_content_type_of_the_senders_choice_wins() -> None:
    assert draft(b'{"json": 1, "content_type": "application/cloudevents+json"}').content_type == (
        "application/cloudevents+json"
    )


def test_everything_that_a_sender_can_say_reaches_the_draft() -> None:
    said = {"attributes": {"n": 1, "f": 1.5, "b": True, "s": "x"}, "id": "i", "delay_ms": 1, "retention_ms": 2,
            "group": "g", "dedup_id": "d"}  # fmt: skip
    made = messages.draft_of(read(messages.SEND, msgspec.json.encode({"body": "x", **said})), "trace")
    assert {name: getattr(made, name) for name in said} == said
    assert made.trace == "trace"


@pytest.mark.parametrize("body", [b"{}", b'{"body": "a", "json": 1}', b'{"body_base64": "", "body": ""}'])
def test_a_message_needs_exactly_one_body(body: bytes) -> None:
    with pytest.raises(Invalid, match="exactly one of body, body_base64 and json"):
        draft(body)


@pytest.mark.parametrize("text", ["%%", "YQ", "YQ=", "YQ==YQ==", "Y Q==", "ü"])
def test_bytes_that_are_not_base64_are_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not base64") as caught:
        draft(msgspec.json.encode({"body_base64": text}))
    assert caught.value.field == "body_base64"


def test_json_must_be_utf8_also_inside_its_strings() -> None:
    with pytest.raises(Invalid, match="UTF-8"):
        draft(b'{"json": "\xff"}')


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"bdy": "x"}', "bdy"),
        (b'{"body": 1}', "body"),
        (b'{"body": null}', "body"),
        (b'{"body": "x", "delay_ms": 1.0}', "delay_ms"),
        (b'{"body": "x", "delay_ms": "1"}', "delay_ms"),
        (b'{"body": "x", "delay_ms": true}', "delay_ms"),
        (b'{"body": "x", "attributes": {"a": null}}', "attributes[...]"),
        (b'{"messages": [{"body": "x"}, {"body": "x", "dely_ms": 1}]}', "messages[1].dely_ms"),
        (b'{"messages": [{"body": "x"}, 5]}', "messages[1]"),
    ],
)
def test_what_does_not_fit_is_named(body: bytes, field: str) -> None:
    error = refusal(messages.SEND, body)
    assert error.field == field
    assert field in str(error)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nonsense", b'{"body": "x"} x', b'{"body": "\xff"}', b'{"json": ' + b"[" * 100_000]
)
def test_what_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest, match="not JSON"):
        read(messages.SEND, body)


def test_a_batch_names_what_is_wrong_with_each_message() -> None:
    order = read(messages.SEND, b'{"messages": [{"body": "a"}, {}, {"body_base64": "?"}, {"json": 1}]}')
    outcomes = messages.drafts_of(order, None)
    assert [type(outcome) for outcome in outcomes] == [Draft, Invalid, Invalid, Draft]


def test_a_batch_and_a_message_do_not_mix() -> None:
    with pytest.raises(Invalid, match="not both"):
        messages.drafts_of(read(messages.SEND, b'{"messages": [{"body": "a"}], "delay_ms": 5}'), None)


@pytest.mark.parametrize("count", [0, 1_001])
def test_a_batch_has_one_to_a_thousand_messages(count: int) -> None:
    order = read(messages.SEND, msgspec.json.encode({"messages": [{"body": "x"}] * count}))
    with pytest.raises(BatchTooLarge, match=f"{count} items"):
        messages.drafts_of(order, None)


# -- messages out ---------------------------------------------------------------------------------------------


def test_a_body_that_is_utf8_is_written_as_text() -> None:
    assert written(messages.write_message(message("grüße".encode()), lambda _: None, 7)) == {
        "seq": 7, "id": "m", "state": "ready", "body": "grüße", "content_type": "text/plain", "attributes": {},
        "attempts": 0, "sent_at": 1, "entered_at": 2, "due_at": 3, "discard_at": 4, "size": 7,
    }  # fmt: skip


def test_any_other_body_is_written_as_base64() -> None:
    shown = written(messages.write_message(message(b"\xff\x00"), lambda _: None, 1))
    assert isinstance(shown, dict)
    assert shown["body_base64"] == "/wA="
    assert "body" not in shown


def test_group_trace_and_death_are_written_where_there_are_any() -> None:
    death = Death(reason="attempts exhausted", source_queue="q1", attempts=3, died_at=9)
    shown = written(messages.write_message(message(group="g", trace="t", death=death), {"q1": "orders"}.get, 1))
    assert isinstance(shown, dict)
    assert (shown["group"], shown["trace"]) == ("g", "t")
    assert shown["death"] == {
        "reason": "attempts exhausted", "source_queue": "orders", "source_queue_id": "q1", "attempts": 3, "died_at": 9,
    }  # fmt: skip


def test_a_refused_item_is_written_as_its_problem_among_the_others() -> None:
    results = messages.write_outcomes([model.Sent(1, "a"), Invalid("too long", field="id")])
    assert written(results) == {
        "results": [
            {"seq": 1, "id": "a", "duplicate": False},
            {
                "error": {
                    "type": "urn:courier:problem:invalid",
                    "title": "The request is not valid",
                    "status": 400,
                    "detail": "too long",
                    "field": "id",
                }
            },
        ]
    }


# -- settling -------------------------------------------------------------------------------------------------


def test_receipts_come_one_or_many_but_not_both() -> None:
    assert settlements.receipts_of(read(settlements.ACK, b'{"receipt": "a"}')) == ["a"]
    assert settlements.receipts_of(read(settlements.ACK, b'{"receipts": ["a", "b"]}')) == ["a", "b"]
    for body in (b"{}", b'{"receipt": "a", "receipts": ["b"]}'):
        with pytest.raises(Invalid, match="either receipt or receipts"):
            settlements.receipts_of(read(settlements.ACK, body))


def test_mixed_settlements_are_told_apart_by_what_they_do() -> None:
    body = b"""{"settlements": [{"do": "ack", "receipt": "a"}, {"do": "release", "receipt": "b", "delay_ms": 5},
                {"do": "release", "receipt": "c"}, {"do": "extend", "receipt": "d", "lease_ms": 9}]}"""
    order = read(settlements.SETTLE, body)
    assert [settlements.settlement_of(item) for item in order.settlements] == [
        model.Ack("a"), model.Release("b", 5), model.Release("c"), model.Extend("d", 9),
    ]  # fmt: skip


def test_a_settlement_of_an_unknown_kind_is_named() -> None:
    error = refusal(settlements.SETTLE, b'{"settlements": [{"do": "nack", "receipt": "a"}]}')
    assert error.field == "settlements[0].do"


def test_an_extension_says_for_how_long() -> None:
    assert str(refusal(settlements.EXTEND, b'{"receipt": "a"}')) == "lease_ms is missing"


@pytest.mark.parametrize(
    ("settled", "shown"),
    [
        (model.Settled(1, "a"), {"seq": 1, "id": "a"}),
        (model.Settled(1, "a", expires_at=5), {"seq": 1, "id": "a", "expires_at": 5}),
        (model.Settled(1, "a", dead=True), {"seq": 1, "id": "a", "dead": True}),
    ],
)
def test_a_result_says_only_what_there_is_to_say(settled: model.Settled, shown: object) -> None:
    assert written(settlements.write_settled(settled, 1)) == shown


# -- queues ---------------------------------------------------------------------------------------------------


def test_every_setting_of_the_core_can_be_set() -> None:
    assert set(queues.SomeSettings.__struct_fields__) == set(QueueSettings.__struct_fields__)


def test_settings_that_are_given_are_laid_over_the_others() -> None:
    base = QueueSettings(delay_ms=5, max_attempts=3)
    some = msgspec.convert({"max_attempts": None, "paused": True}, queues.SomeSettings)
    assert queues.settings_of(some, base, lambda name: name) == QueueSettings(
        delay_ms=5, max_attempts=None, paused=True
    )


def test_a_dead_letter_queue_is_a_name_outside_and_an_id_inside() -> None:
    some = msgspec.convert({"dead_letter_queue": "dead"}, queues.SomeSettings)
    settings = queues.settings_of(some, QueueSettings(), {"dead": "id-1"}.__getitem__)
    assert settings.dead_letter_queue == "id-1"
    queue = model.Queue(key=1, id="q", tenant="t", name="orders", settings=settings)
    assert queues.write_queue(queue, {"id-1": "dead"}.get).settings.dead_letter_queue == "dead"


def test_the_age_of_the_oldest_message_is_counted_from_now() -> None:
    shown = queues.write_counters(model.Counters(ready_count=1, leased_count=2, oldest_at=100), now=130)
    assert (shown.total_count, shown.oldest_age_ms) == (3, 30)
    assert queues.write_counters(model.Counters(), now=130).oldest_age_ms is None


# -- lists and filters ----------------------------------------------------------------------------------------


def test_pages_follow_each_other_until_the_end() -> None:
    things, after, seen = ["a", "b", "c", "d", "e"], "", []
    while True:
        page, following = page_of(things, PageQuery(limit=2, after=after), key=str)
        seen.append(list(page))
        if following is None:
            break
        after = following
    assert seen == [["a", "b"], ["c", "d"], ["e"]]


def test_credentials_are_paged_by_age() -> None:
    young = model.Credential(id="a", tenant="t", name="n", secret_hash=b"", created_at=1_000)
    old = model.Credential(id="b", tenant="t", name="n", secret_hash=b"", created_at=999)
    assert credentials.cursor_of(old) < credentials.cursor_of(young)


@pytest.mark.parametrize(
    ("text", "attribute"),
    [
        ("colour:red", ("colour", "red")),
        ("size:5", ("size", 5.0)),
        ('size:"5"', ("size", "5")),
        ("done:true", ("done", True)),
        ("a:b:c", ("a", "b:c")),
        ("a:", ("a", "")),
    ],
)
def test_an_attribute_filter_is_a_name_and_a_value(text: str, attribute: object) -> None:
    assert choices.attributes_of([text]) == (attribute,)


@pytest.mark.parametrize("text", ["colour", ":red", ""])
def test_an_attribute_filter_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="name:value"):
        choices.attributes_of([text])


def test_no_state_means_every_state() -> None:
    assert choices.states_of([]) == tuple(State)
    assert choices.states_of(["leased"]) == (State.LEASED,)
    with pytest.raises(Invalid, match="use delayed, ready or leased"):
        choices.states_of(["acked"])


def test_a_name_that_nothing_bears_is_the_callers_mistake() -> None:
    some = msgspec.convert({"dead_letter_queue": "dead"}, queues.SomeSettings)

    def nobody(name: str) -> str:
        raise QueueNotFound(name)

    with pytest.raises(QueueNotFound):
        queues.settings_of(some, QueueSettings(), nobody)


def test_bytes_in_the_detail_of_an_event_are_written_as_base64() -> None:
    from couriermq.core.events import Entry, Event

    entry = Entry(5, Event("sent", 1, "t", detail={"body": b"\xff", "delay_ms": 3}))
    assert written(events.write_event(entry)) == {
        "offset": 5, "kind": "sent", "at": 1, "tenant": "t", "queue_id": None, "queue": None, "seq": None,
        "message_id": None, "attempt": None, "size": None, "principal": None, "turn": None, "sent_at": None,
        "detail": {"body_base64": "/w==", "delay_ms": 3},
    }  # fmt: skip
