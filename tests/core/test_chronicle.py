"""Events packed in runs come back as they were, in their order; so do those that were packed before there were runs."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core import chronicle as chronicles
from couriermq.core.chronicle import Chronicle, Commit, entries_of, unpack, unpack_runs
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.model import Queue
from couriermq.storage.checking import commit_finding

QUEUE = Queue(key=1, id="q1", tenant="default", name="orders")

details: st.SearchStrategy[dict[str, str | bytes] | None] = st.one_of(
    st.none(),
    st.just({}),
    st.fixed_dictionaries({"content_type": st.sampled_from(["text/plain", "application/json"])}),
    st.fixed_dictionaries({"content_type": st.just("text/plain"), "body": st.binary(max_size=3)}),
    st.fixed_dictionaries({"body": st.one_of(st.binary(max_size=3), st.text(max_size=3))}),
)
events = st.builds(
    Event,
    kind=st.sampled_from([EventKind.SENT.value, EventKind.ACKED.value]),
    at=st.integers(0, 2**50),
    tenant=st.sampled_from(["default", "other", ""]),
    queue_id=st.sampled_from([None, "q1", "q2"]),
    queue=st.sampled_from([None, "orders"]),
    seq=st.one_of(st.none(), st.integers(1, 3), st.integers(1, 2**60)),
    message_id=st.one_of(
        st.none(),
        st.text(max_size=5),
        st.binary(min_size=16, max_size=16).map(bytes.hex),
        st.sampled_from(["A" * 32, "a" * 16, "a" * 48, " " * 32]),
    ),
    attempt=st.one_of(st.none(), st.integers(0, 9)),
    size=st.one_of(st.none(), st.integers(0, 2**30)),
    principal=st.sampled_from([None, "root"]),
    detail=details,
    turn=st.sampled_from([None, 1, 1, 2, 300]),
    sent_at=st.sampled_from([None, 0, 0, 2**45]),
)


def packed(told: list[Event]) -> Chronicle:
    chronicle = Chronicle()
    chronicle.extend(told)
    return chronicle


@given(st.lists(events, max_size=12))
def test_what_is_packed_comes_back(told: list[Event]) -> None:
    chronicle = packed(told)
    assert len(chronicle) == len(told)
    assert unpack(chronicle.pack()) == told
    assert [event for run in unpack_runs(chronicle.pack()) for event in run.events()] == told


@given(st.lists(events, max_size=12))
def test_what_an_older_version_packed_comes_back(told: list[Event]) -> None:
    blob = msgspec.msgpack.encode(told)
    assert unpack(blob) == told
    assert [event for run in unpack_runs(blob) for event in run.events()] == told


@given(st.lists(events, max_size=12))
def test_runs_with_a_value_for_each_event_come_back(told: list[Event]) -> None:
    blob = b"\xc1" + msgspec.msgpack.encode(packed(told).runs)
    assert unpack(blob) == told


def test_messages_that_share_their_columns_take_few_bytes() -> None:
    chronicle = Chronicle()
    ids = [f"{number:032x}" for number in range(100)]
    chronicle.note_all("acked", 2**40, QUEUE, range(2**40, 2**40 + 100), ids, [1] * 100, [130] * 100, "root", turn=3)
    blob = chronicle.pack()
    assert len(blob) < 100 * 16 + 100
    assert [event.seq for event in unpack(blob)] == list(range(2**40, 2**40 + 100))
    assert [event.message_id for event in unpack(blob)] == ids


@given(st.lists(st.lists(events, min_size=1, max_size=4), min_size=1, max_size=4), st.data())
def test_entries_are_cut_to_what_was_asked_for(commits: list[list[Event]], data: st.DataObject) -> None:
    stored, offset = [], 7
    for told in commits:
        stored.append(Commit(offset, len(told), packed(told).pack()))
        offset += len(told)
    every = [Entry(7 + place, event) for place, event in enumerate(event for told in commits for event in told)]
    start, limit = data.draw(st.integers(7, 6 + len(commits[0]))), data.draw(st.integers(1, 20))
    assert entries_of(stored, start=start, limit=limit) == every[start - 7 :][:limit]


def test_messages_that_are_told_of_alike_are_one_run() -> None:
    chronicle = Chronicle()
    chronicle.note("sent", 1, QUEUE, 5, "a", 0, 2, "root", {"content_type": "text/plain"}, b"hi")
    chronicle.note_all(
        "sent", 2, QUEUE, [6, 7], ["b", "c"], [0, 0], [1, 1], "root", {"content_type": "text/plain"}, [b"x", b"y"]
    )
    chronicle.note("received", 3, QUEUE, 5, "a", 1, 2, "root")
    assert [len(run) for run in chronicle.runs] == [3, 1]
    assert chronicle.last_at == 3
    sent = unpack(chronicle.pack())[2]
    assert (sent.seq, sent.queue, sent.detail) == (7, QUEUE.name, {"content_type": "text/plain", "body": b"y"})


def test_a_message_without_a_body_is_not_in_a_run_with_bodies() -> None:
    chronicle = Chronicle()
    chronicle.note("sent", 1, QUEUE, 5, "a", 0, 0, "root", None, b"")
    chronicle.note("sent", 1, QUEUE, 6, "b", 0, 0, "root", None)
    chronicle.note("sent", 1, QUEUE, 7, "c", 0, 0, "root", None, b"c")
    assert [event.detail for event in unpack(chronicle.pack())] == [{"body": b""}, None, {"body": b"c"}]


def test_a_run_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chronicles, "MOST_EVENTS", 2)
    chronicle = Chronicle()
    for seq in range(5):
        chronicle.note("acked", 1, QUEUE, seq, "a", 0, 0)
    assert [len(run) for run in chronicle.runs] == [2, 2, 1]


def test_what_belongs_to_no_tenant_can_be_left_out() -> None:
    chronicle = packed([Event("sent", 1, ""), Event("sent", 2, "default"), Event("sent", 3, "")])
    chronicle.keep_of_tenants()
    assert [event.at for event in unpack(chronicle.pack())] == [2]
    chronicle.extend([Event("sent", 4, "default")])
    assert (len(chronicle), [event.at for event in unpack(chronicle.pack())]) == (2, [2, 4])


def test_a_run_whose_columns_differ_in_length_is_found_out() -> None:
    chronicle = packed([Event("sent", 1, "default", seq=5), Event("sent", 2, "default", seq=6)])
    assert commit_finding(None, 0, 2, chronicle.pack()) is None
    chronicle.runs[0].seqs.pop()
    assert commit_finding(None, 0, 2, chronicle.pack()) == "the journal cannot be read at offset 0"
