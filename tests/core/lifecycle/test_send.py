"""Messages on their way in."""

import pytest

from couriermq.core.errors import QueueNotFound
from couriermq.core.lifecycle import rows, send
from couriermq.core.model import DEDUP_MS, Draft, Kind, Parcel, Queue, Sent, State
from tests.support.memory import NOW, Memory, plain


@pytest.mark.parametrize("count", [1, 3, 100])
def test_messages_of_one_call_are_one_pack(count: int) -> None:
    memory = Memory()
    outcomes = memory.send(*plain(count))
    (pack,) = memory.packs.values()
    assert (pack.first, pack.last, pack.remaining) == (1, count, count)
    assert [outcome.seq for outcome in outcomes] == list(range(1, count + 1))
    assert memory.singles == {}
    assert memory.figures()[0] == count


def test_messages_of_several_calls_of_one_commit_share_a_pack() -> None:
    memory = Memory()
    orders = [send.Order([Parcel(memory.queue, draft)], NOW, "root") for draft in plain(5)]
    memory.decide(send.send(memory.unit, orders, queues=memory, sealer=memory.sealer))
    assert [pack.count for pack in memory.packs.values()] == [5]


@pytest.mark.parametrize(
    ("principals", "drafts"),
    [
        (("one", "other"), plain(2)),
        (("one", "one"), [Draft(body=b"m0"), Draft(body=b"m1", content_type="text/html")]),
        (("one", "one"), [Draft(body=b"m0"), Draft(body=b"m1", attributes={"colour": "red"})]),
    ],
    ids=["another sender", "another type", "attributes"],
)
def test_calls_that_differ_have_events_of_their_own(principals: tuple[str, str], drafts: list[Draft]) -> None:
    memory = Memory()
    orders = [
        send.Order([Parcel(memory.queue, draft)], NOW, who) for who, draft in zip(principals, drafts, strict=True)
    ]
    memory.decide(send.send(memory.unit, orders, queues=memory, sealer=memory.sealer))
    (content,) = memory.contents.values()
    assert [(run.principal, run.bodies) for run in content.runs] == [(principals[0], [b"m0"]), (principals[1], [b"m1"])]
    leases = memory.receive(limit=2)
    assert [(lease.message.body, lease.message.content_type) for lease in leases] == [
        (draft.body, draft.content_type) for draft in drafts
    ]


@pytest.mark.parametrize("size", [10, rows.ROW_BYTES // 3])
def test_calls_that_are_alike_fill_rows_of_the_journal_up_to_their_limits(size: int) -> None:
    memory = Memory()
    count = 3 * rows.ROW_EVENTS // 2 if size == 10 else 8
    orders = [send.Order([Parcel(memory.queue, Draft(body=bytes(size)))] * 2, NOW, "root") for _ in range(count // 2)]
    outcomes = memory.decide(send.send(memory.unit, orders, queues=memory, sealer=memory.sealer))
    assert [sent.seq for of_one in outcomes for sent in of_one] == list(range(1, count + 1))
    assert [len(of_one) for of_one in outcomes] == [2] * (count // 2)
    held = [content.runs[0].bodies for content in memory.contents.values()]
    assert sum(map(len, held)) == count
    assert all(len(bodies) <= rows.ROW_EVENTS for bodies in held)
    assert all(len(bodies) * size <= rows.ROW_BYTES for bodies in held)
    assert len(held) == (2 if size == 10 else 4)


def test_messages_of_another_instant_are_another_pack() -> None:
    memory = Memory()
    orders = [send.Order([Parcel(memory.queue, draft)], NOW + n, "root") for n, draft in enumerate(plain(2))]
    memory.decide(send.send(memory.unit, orders, queues=memory, sealer=memory.sealer))
    assert [pack.entered_at for pack in memory.packs.values()] == [NOW, NOW + 1]


def test_each_queue_of_a_commit_has_seqs_without_gaps() -> None:
    memory = Memory()
    other = memory.add("bills")
    parcels = [Parcel(queue, Draft(body=b"x")) for queue in (memory.queue, other) * 3]
    outcomes = memory.send_parcels(parcels)
    assert [outcome.seq for outcome in outcomes] == [1, 4, 2, 5, 3, 6]
    assert [pack.count for pack in memory.packs.values()] == [3, 3]


@pytest.mark.parametrize(
    "draft",
    [Draft(body=b"x", id="mine"), Draft(body=b"x", retention_ms=5_000), Draft(body=b"x", group="g")],
    ids=["its own id", "its own retention", "a group"],
)
def test_a_message_is_a_row_of_its_own_for(draft: Draft) -> None:
    memory = Memory()
    memory.send(draft)
    assert memory.packs == {}
    (single,) = memory.singles.values()
    assert (single.state, single.size) == (State.READY, 1)


def test_a_single_between_packed_messages_leaves_the_pack_behind_it_whole() -> None:
    memory = Memory()
    memory.send(*plain(2), Draft(body=b"x", id="mine"), *plain(2))
    assert [(pack.first, pack.last) for pack in memory.packs.values()] == [(1, 2), (4, 5)]
    assert list(memory.singles) == [3]


def test_delayed_messages_are_a_pack_that_is_delayed() -> None:
    memory = Memory(delay_ms=500)
    memory.send(*plain(5))
    (pack,) = memory.packs.values()
    assert (pack.state, pack.due_at) == (State.DELAYED, NOW + 500)
    assert memory.figures() == (0, 5, 0, 10)


def test_a_body_that_is_too_large_for_its_company_has_a_row_of_the_journal_to_itself() -> None:
    memory = Memory()
    memory.send(Draft(body=b"a"), Draft(body=b"b" * rows.ROW_BYTES), Draft(body=b"c"))
    assert [len(content.runs[0].bodies) for content in memory.contents.values()] == [1, 1, 1]
    assert len({pack.start for pack in memory.packs.values()}) == 3


def test_bodies_of_a_queue_that_does_not_archive_them_are_private() -> None:
    memory = Memory(archive_bodies=False)
    memory.send(Draft(body=b"x", attributes={"colour": "red"}))
    (content,) = memory.contents.values()
    assert content.runs[0].private == {"attributes": {"colour": "red"}}
    assert "attributes" not in (content.runs[0].detail or {})
    (lease,) = memory.receive()
    assert lease.message.attributes == {"colour": "red"}


def test_a_queue_that_was_deleted_refuses_its_own_messages_alone() -> None:
    memory = Memory()
    gone = Queue(key=99, id="gone", tenant="t", name="gone")
    refused, taken = memory.send_parcels([Parcel(gone, Draft(body=b"x")), Parcel(memory.queue, Draft(body=b"y"))])
    assert isinstance(refused, QueueNotFound)
    assert isinstance(taken, Sent)


def test_a_copy_is_not_made_of_what_was_refused() -> None:
    memory = Memory()
    gone = Queue(key=99, id="gone", tenant="t", name="gone")
    draft = Draft(body=b"x")
    first, copy = memory.send_parcels([Parcel(gone, draft), Parcel(memory.queue, draft, copy_of=0)])
    assert first is copy
    assert memory.packs == {}


def test_a_copy_names_its_original_where_that_leaves_with_its_last_copy() -> None:
    memory = Memory(keep_delivered=False)
    outbox, draft = memory.add("outbox"), Draft(body=b"x")
    memory.send_parcels([Parcel(memory.queue, draft), Parcel(outbox, draft, copy_of=0)])
    (copy,) = memory.singles.values()
    assert (copy.queue, copy.origin) == (outbox.key, 1)


def test_a_copy_without_a_body_and_a_message_with_one_share_no_events() -> None:
    memory = Memory(archive_bodies=False, keep_delivered=False)
    outbox, draft = memory.add("outbox", archive_bodies=False), Draft(body=b"x")
    both = [Parcel(memory.queue, draft), Parcel(outbox, draft, copy_of=0), Parcel(outbox, Draft(body=b"yy"))]
    memory.send_parcels(both)
    (content,) = memory.contents.values()
    assert [(run.seqs, run.bodies) for run in content.runs] == [([1], [b"x"]), ([2], []), ([3], [b"yy"])]
    assert {lease.message.body for lease in memory.receive(queue=outbox)} == {b"x", b"yy"}


class TestFifo:
    def line(self) -> tuple[Memory, Queue]:
        memory = Memory()
        return memory, memory.add("line", Kind.FIFO)

    def test_a_duplicate_names_the_message_that_was_kept(self) -> None:
        memory, line = self.line()
        (first,) = memory.send(Draft(body=b"x", id="a"), queue=line)
        (again,) = memory.send(Draft(body=b"y", id="a"), queue=line, now=NOW + DEDUP_MS - 1)
        assert (again.seq, again.duplicate) == (first.seq, True)
        assert len(memory.singles) == 1

    def test_a_duplicate_in_the_same_commit_is_dropped_too(self) -> None:
        memory, line = self.line()
        first, again = memory.send(Draft(body=b"x", id="a"), Draft(body=b"y", id="a"), queue=line)
        assert (again.seq, again.id, again.duplicate) == (first.seq, "a", True)

    def test_an_id_is_forgotten_after_its_time(self) -> None:
        memory, line = self.line()
        memory.send(Draft(body=b"x", id="a"), queue=line)
        (again,) = memory.send(Draft(body=b"y", id="a"), queue=line, now=NOW + DEDUP_MS)
        assert not again.duplicate

    def test_the_first_message_of_a_group_is_its_head(self) -> None:
        memory, line = self.line()
        memory.send(Draft(body=b"x", group="g"), Draft(body=b"y", group="g"), queue=line)
        assert memory.groups == {(line.key, "g"): [1, NOW, 0]}
