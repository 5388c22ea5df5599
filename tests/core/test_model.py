"""Every noun of the control plane can be written down and read back."""

import msgspec
import pytest

from couriermq.catalog import KINDS
from couriermq.catalog.vault import StoredListener, Vault
from couriermq.core.model import (
    Action,
    Binding,
    Counters,
    Credential,
    Exchange,
    Kind,
    LateAck,
    Listener,
    ListenerSettings,
    Matcher,
    Message,
    Queue,
    QueueSettings,
    Record,
    Rule,
    RuleType,
    Scope,
    Secret,
    State,
    Tenant,
)

RULES = (
    Rule(attribute="colour", type=RuleType.STRING, matcher=Matcher.ANY_OF, value=["red", "green"]),
    Rule(attribute="size", type=RuleType.NUMERIC, matcher=Matcher.RANGE, value=[1.5, 2.0]),
    Rule(attribute="size", type=RuleType.NUMERIC, matcher=Matcher.GE, value=3.0),
    Rule(attribute="name", type=RuleType.STRING, matcher=Matcher.PREFIX, value="ab"),
    Rule(attribute="note", type=RuleType.STRING, matcher=Matcher.EXISTS, value=False),
)
THINGS = [
    Tenant(id="acme", created_at=5, aliases={"cloudflare": "0123"}),
    Queue(key=1, id="q1", tenant="acme", name="plain"),
    Queue(
        key=2,
        id="q2",
        tenant="acme",
        name="full",
        kind=Kind.FIFO,
        settings=QueueSettings(max_attempts=3, dead_letter_queue="q1", paused=True, late_ack=LateAck.ACCEPT),
        annotations={"cloudflare.consumer": {"type": "http_pull"}},
        created_at=1,
        changed_at=2,
    ),
    Exchange(id="x1", tenant="acme", name="fanout", annotations={"note": [1, None, "two"]}),
    Binding(tenant="acme", exchange_id="x1", queue_id="q1"),
    Binding(tenant="acme", exchange_id="x1", queue_id="q2", rules=RULES),
    Listener(
        id="l1",
        tenant="acme",
        queue_id="q1",
        name="hook",
        url="https://example.com/hook",
        outbox_id="q3",
        dead_letters_id="q4",
        secrets=(Secret(value="whsec_c2VjcmV0", created_at=3, expires_at=4),),
        settings=ListenerSettings(schedule_ms=(1, 2), rules=RULES, headers={"x-team": "blue"}),
    ),
    Credential(id="c1", tenant="acme", name="all", secret_hash=b"\x00" * 32),
    Credential(
        id="c2",
        tenant="acme",
        name="some",
        secret_hash=b"\xff" * 32,
        scopes=(Scope(Action.SEND, ("orders",)),),
        enabled=False,
        expires_at=9,
        requests_per_second=1.5,
    ),
    Record(kind="subscription", tenant="acme", id="r1", document={"deep": {"er": [True, 1.25]}}),
]


@pytest.mark.parametrize("thing", THINGS, ids=lambda thing: f"{type(thing).__name__}-{getattr(thing, 'id', '')}")
def test_a_thing_of_the_control_plane_survives_being_stored(thing: msgspec.Struct) -> None:
    noun = KINDS[type(thing).__name__.lower()]
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(thing), type=noun)
    assert (Vault().opened(stored) if isinstance(stored, StoredListener) else stored) == thing


def test_the_examples_above_leave_no_noun_out() -> None:
    assert {type(thing).__name__.lower() for thing in THINGS} == set(KINDS)


def test_the_numbers_of_states_are_stored_and_therefore_fixed() -> None:
    assert {state.name: state.value for state in State} == {"DELAYED": 0, "READY": 1, "LEASED": 2}


def test_the_size_of_a_message_is_the_length_of_its_body() -> None:
    message = Message(
        seq=1, id="m", state=State.READY, body="grün".encode(), content_type="text/plain", attributes={},
        attempts=0, sent_at=0, entered_at=0, due_at=0, discard_at=1,
    )  # fmt: skip
    assert message.size == 5


def test_the_total_of_counters_is_the_sum_of_the_three_states() -> None:
    assert Counters(ready_count=1, delayed_count=20, leased_count=300).total_count == 321
