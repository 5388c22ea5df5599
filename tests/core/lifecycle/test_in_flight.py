"""The limit on messages that are leased at the same time."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from couriermq.core.events import EventKind
from couriermq.core.lifecycle import claim, needs, receive, settle
from couriermq.core.lifecycle.in_flight import gained
from couriermq.core.lifecycle.order import leasing_keys, ordered_keys
from couriermq.core.lifecycle.purge import purge, remove_chosen
from couriermq.core.lifecycle.quarantine import quarantine
from couriermq.core.lifecycle.tally import Tally
from couriermq.core.limits import LEASED_COUNT, RESPONSE_BYTES
from couriermq.core.model import (
    Ack,
    Claim,
    Draft,
    Extend,
    Fate,
    Job,
    Kind,
    LateAck,
    Lease,
    Queue,
    QueueSettings,
    Release,
)
from couriermq.core.shards import Newest
from tests.support.memory import NOW, Memory, plain


def limited(most: int, count: int, **settings: Any) -> Memory:
    """A queue with this limit on leased messages, and more messages than that."""
    memory = Memory(max_leased=most, **settings)
    memory.send(*plain(count))
    memory.unit.ready.clear()
    return memory


def _with_limit(memory: Memory, most: int) -> Queue:
    """The queue after a change of its settings."""
    return msgspec.structs.replace(memory.queue, settings=QueueSettings(max_leased=most))


def together(memory: Memory, *wanted: int) -> list[int]:
    """How much each of the receivers of one commit gets."""
    orders = [receive.Order(limit, 100, NOW, "root") for limit in wanted]
    found = memory.decide(receive.receive(memory.unit, memory.queue, orders, sealer=memory.sealer, now=NOW))
    return [len(leases) for leases in found]


def take_part(memory: Memory, limit: int, number: int = 1) -> Claim | None:
    memory.jobs["spark"] = Job(name="spark", epoch=1, done=0, opened_at=NOW)
    order = {"epoch": 1, "limit": limit, "ready_by": NOW, "now": NOW}
    step = claim.take_part(memory.unit, memory.queue, "spark", number, principal="root", **order)
    found: Claim | None = memory.decide(step)
    return found


def needs_of(memory: Memory) -> list[type]:
    """What a receive asks for."""
    asked: list[type] = []
    decision = receive.receive(
        memory.unit, memory.queue, [receive.Order(1, 100, NOW, "root")], sealer=memory.sealer, now=NOW
    )

    def listened() -> needs.Deciding[object]:
        answer = None
        while True:
            try:
                need = decision.send(answer)
            except StopIteration as end:
                return end.value
            asked.append(type(need))
            answer = yield need

    memory.decide(listened())
    return asked


class TestReceive:
    def test_a_receiver_gets_what_the_limit_leaves(self) -> None:
        memory = limited(3, 10)
        assert len(memory.receive(2)) == 2
        assert len(memory.receive(2)) == 1
        assert memory.receive(2) == []
        assert memory.figures()[:3] == (7, 0, 3)

    def test_receivers_of_one_commit_share_it_in_their_order(self) -> None:
        assert together(limited(5, 10), 2, 2, 2, 2) == [2, 2, 1, 0]

    def test_a_limit_that_is_not_reached_changes_nothing(self) -> None:
        assert together(limited(5, 3), 2, 2, 2) == [2, 1, 0]

    def test_longest_ready_messages_are_given_first(self) -> None:
        memory = limited(2, 1)
        memory.send(Draft(body=b"mine", id="mine"), *plain(2), now=NOW + 1)
        assert [lease.message.seq for lease in memory.receive(now=NOW + 2)] == [1, 2]

    def test_what_others_have_leased_counts(self) -> None:
        memory = limited(5, 10)
        memory.others = (0, 0, 4, 0, 0, 0, 0)
        assert together(memory, 1, 1) == [1, 0]

    def test_what_others_have_let_go_of_counts_too(self) -> None:
        """One of several writers may have added leases that another has ended: only the sum is exact."""
        memory = limited(2, 10)
        memory.receive(2)
        memory.others = (0, 0, -2, 0, 0, 0, 0)
        assert len(memory.receive(10)) == 2

    def test_a_limit_below_what_is_leased_takes_nothing_back(self) -> None:
        memory = Memory()
        memory.send(*plain(10))
        held = memory.receive(5)
        memory.queue = memory.queues[1] = _with_limit(memory, 3)
        assert memory.receive() == []
        assert memory.figures()[2] == 5
        memory.ack(*held[:2])
        assert memory.receive() == []
        memory.ack(held[2])
        assert len(memory.receive()) == 1

    def test_a_receiver_whose_response_is_full_leaves_the_rest_to_others(self) -> None:
        memory = Memory(max_leased=5)
        memory.send(*[Draft(body=b"x" * (RESPONSE_BYTES // 2))] * 5)
        memory.unit.ready.clear()
        assert len(memory.receive()) == 2
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_a_queue_without_a_limit_is_asked_nothing_more(self) -> None:
        memory = Memory()
        memory.send(*plain(2))
        assert needs_of(memory) == [needs.Ready, needs.Content]

    def test_what_is_leased_is_known_before_any_row_is_asked_for(self) -> None:
        assert needs_of(limited(1, 2))[:2] == [needs.Totals, needs.Ready]

    def test_no_row_is_asked_for_once_the_limit_is_reached(self) -> None:
        memory = limited(1, 2)
        memory.receive()
        assert needs_of(memory) == [needs.Totals]

    def test_nothing_is_asked_about_an_empty_queue(self) -> None:
        assert needs_of(Memory(max_leased=1)) == []


class TestGroups:
    def line(self, most: int, groups: str) -> Memory:
        memory = Memory()
        memory.queue = memory.add("line", Kind.FIFO, max_leased=most)
        memory.send(*[Draft(body=b"x", group=group) for group in groups])
        return memory

    def groups(self, leases: list[Lease]) -> str:
        return "".join(lease.message.group or "" for lease in leases)

    def test_the_limit_holds_over_all_groups(self) -> None:
        memory = self.line(3, "aabbcc")
        assert self.groups(memory.receive(2)) == "aa"
        assert self.groups(memory.receive(2)) == "b"
        assert memory.receive() == []

    def test_receivers_of_one_commit_share_it(self) -> None:
        assert together(self.line(3, "aabbcc"), 2, 2, 2) == [2, 1, 0]

    def test_the_limit_of_a_group_holds_as_well(self) -> None:
        memory = self.line(3, "aaabbb")
        assert self.groups(memory.receive(group_limit=1)) == "ab"
        assert self.groups(memory.receive(group_limit=1)) == ""
        assert memory.figures()[2] == 2

    def test_a_group_that_was_cut_goes_on_in_its_order(self) -> None:
        memory = self.line(2, "aaa")
        held = memory.receive()
        memory.ack(held[0])
        assert memory.receive() == []  # the group is locked, whatever the limit leaves
        memory.ack(held[1])
        assert [lease.message.seq for lease in memory.receive()] == [3]

    def test_no_group_is_asked_for_once_the_limit_is_reached(self) -> None:
        memory = self.line(1, "ab")
        memory.receive()
        assert needs_of(memory) == [needs.Totals]


class TestClaim:
    def test_a_claim_is_complete_with_what_the_limit_leaves(self) -> None:
        memory = limited(3, 10)
        memory.receive(1)
        taken = take_part(memory, 10)
        assert taken is not None
        assert taken.count == 2
        assert memory.receive() == []

    def test_a_claim_is_empty_once_the_limit_is_reached(self) -> None:
        memory = limited(1, 2)
        memory.receive()
        taken = take_part(memory, 10)
        assert taken is not None
        assert taken.count == 0
        assert memory.orders == []

    def test_a_claim_that_is_as_large_as_the_limit_is_complete(self) -> None:
        taken = take_part(limited(3, 10), 3)
        assert taken is not None
        assert taken.count == 3

    def test_what_is_claimed_counts_for_receivers(self) -> None:
        memory = limited(3, 10)
        take_part(memory, 2)
        assert len(memory.receive()) == 1

    def test_groups_are_claimed_up_to_the_limit(self) -> None:
        memory = TestGroups().line(3, "aabb")
        taken = take_part(memory, 10)
        assert taken is not None
        assert taken.count == 3


def _acked(memory: Memory, leases: list[Lease]) -> None:
    memory.ack(*leases)


def _released(memory: Memory, leases: list[Lease]) -> None:
    memory.settle(*(Release(lease.receipt) for lease in leases))


def _released_for_later(memory: Memory, leases: list[Lease]) -> None:
    memory.settle(*(Release(lease.receipt, 1_000) for lease in leases))


def _expired(memory: Memory, leases: list[Lease]) -> None:
    memory.expire(NOW + 100)


def _purged(memory: Memory, leases: list[Lease]) -> None:
    last = leases[-1].message.seq
    memory.decide(
        purge(memory.unit, memory.queue, upto=Newest(last, NOW), after=None, limit=100, now=NOW, principal="root")
    )


def _removed(memory: Memory, leases: list[Lease]) -> None:
    seqs = [lease.message.seq for lease in leases]
    memory.decide(remove_chosen(memory.unit, memory.queue, seqs, kind=EventKind.PURGED, now=NOW, principal="root"))


def _damaged(memory: Memory, leases: list[Lease]) -> None:
    memory.decide(quarantine(memory.unit, start=0, seq=None, queues=memory, sealer=memory.sealer, at=NOW))


WAYS_OUT: list[Callable[[Memory, list[Lease]], None]] = [
    _acked, _released, _released_for_later, _expired, _purged, _removed, _damaged,
]  # fmt: skip


class TestRoom:
    """Receivers that wait hear of every way in which a lease ends."""

    @pytest.mark.parametrize("end", WAYS_OUT, ids=lambda way: way.__name__.strip("_"))
    def test_the_end_of_a_lease_is_told(self, end: Callable[[Memory, list[Lease]], None]) -> None:
        memory = limited(2, 2)
        memory.send(*plain(5), now=NOW + 1)
        leases = memory.receive()
        memory.unit.ready.clear()
        end(memory, leases)
        assert memory.unit.ready == {memory.queue.key: 2}
        assert len(memory.receive(now=NOW + 200)) == 2

    @pytest.mark.parametrize("end", WAYS_OUT, ids=lambda way: way.__name__.strip("_"))
    def test_one_of_several_writers_tells_of_it_without_knowing_the_rest(
        self, end: Callable[[Memory, list[Lease]], None]
    ) -> None:
        memory = Memory(max_leased=2)
        memory.tallies[memory.queue.key] = Tally(memory.queue.key, is_partial=True)
        memory.send(*plain(2))
        leases = memory.receive()
        memory.unit.ready.clear()
        memory.tallies[memory.queue.key].next_due = NOW + 100
        end(memory, leases)
        assert memory.unit.ready == {memory.queue.key: 2}

    def test_messages_that_die_make_room(self) -> None:
        memory = limited(1, 3, max_attempts=1, dead_letter_queue="dead")
        dead = memory.add("dead")
        (lease,) = memory.receive()
        memory.settle(Release(lease.receipt))
        assert memory.unit.ready == {memory.queue.key: 1, dead.key: 1}

    def test_messages_that_die_with_their_lease_make_room(self) -> None:
        memory = limited(1, 3, max_attempts=1)
        memory.receive()
        memory.expire(NOW + 100)
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_a_leased_message_that_grows_too_old_makes_room(self) -> None:
        memory = Memory(max_leased=1, retention_ms=1_000)
        memory.send(*plain(1))
        memory.send(*plain(2), now=NOW + 500)
        memory.receive(lease_ms=60_000)
        memory.unit.ready.clear()
        memory.expire(NOW + 1_000)
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_a_late_ack_makes_room(self) -> None:
        memory = limited(1, 1, late_ack=LateAck.ACCEPT)
        (first,) = memory.receive(lease_ms=100)
        memory.expire(NOW + 100)
        memory.receive(now=NOW + 100)  # somebody else has it now
        memory.send(*plain(1))
        memory.unit.ready.clear()
        memory.settle(Ack(first.receipt), now=NOW + 101)
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_the_end_of_a_claim_makes_room(self) -> None:
        memory = limited(2, 5)
        take_part(memory, 2)
        seqs = [seq for pack in memory.packs.values() if pack.attempts for seq in pack.seqs()]
        for fate in (Fate.ACKED, Fate.FREED):
            memory.unit.ready.clear()
            memory.decided = ("spark", 1, int(fate), (0, seqs[:1]))
            end = claim.end_part(memory.unit, memory.queue, queues=memory, now=NOW, principal="root")
            assert memory.decide(end) == 1
            assert memory.unit.ready == {memory.queue.key: 1}
            del seqs[0]

    def test_no_more_are_called_than_messages_are_ready(self) -> None:
        memory = limited(3, 4)
        leases = memory.receive()
        memory.ack(*leases)
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_nobody_is_called_while_the_limit_is_still_reached(self) -> None:
        memory = Memory()
        memory.send(*plain(10))
        leases = memory.receive(5)
        memory.unit.ready.clear()
        memory.queue = memory.queues[1] = _with_limit(memory, 3)
        memory.ack(*leases[:2])
        assert memory.unit.ready == {}
        memory.ack(leases[2])
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_nobody_is_called_for_what_a_receiver_of_the_same_commit_has_taken(self) -> None:
        memory = limited(2, 10)
        leases = memory.receive()

        def one_commit() -> needs.Deciding[None]:
            acks = settle.Order([Ack(lease.receipt) for lease in leases], NOW, "root")
            yield from settle.settle(memory.unit, memory.queue, [acks], queues=memory, sealer=memory.sealer)
            orders = [receive.Order(1, 100, NOW, "root")]
            yield from receive.receive(memory.unit, memory.queue, orders, sealer=memory.sealer, now=NOW)

        memory.decide(one_commit())
        assert memory.unit.ready == {memory.queue.key: 1}

    def test_an_extension_makes_no_room(self) -> None:
        memory = limited(1, 3)
        (lease,) = memory.receive()
        memory.settle(Extend(lease.receipt, 5_000))
        assert memory.unit.ready == {}

    def test_nobody_is_called_where_there_is_no_limit(self) -> None:
        memory = Memory()
        memory.send(*plain(3))
        (lease,) = memory.receive(1)
        memory.unit.ready.clear()
        memory.ack(lease)
        assert memory.unit.ready == {}


class TestLocks:
    def test_whoever_leases_has_a_limited_queue_for_himself_and_who_sends_does_not(self) -> None:
        memory = Memory(max_leased=1)
        assert leasing_keys(memory.queue) == (memory.queue.key,)
        assert ordered_keys([memory.queue]) == ()

    def test_a_queue_in_order_is_locked_anyway(self) -> None:
        memory = Memory()
        line = memory.add("line", Kind.FIFO)
        assert leasing_keys(line) == ordered_keys([line]) == (line.key,)

    def test_a_plain_queue_is_not_locked(self) -> None:
        assert leasing_keys(Memory().queue) == ()


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        (None, None, 0), (None, 5, 0), (5, 5, 0), (5, 3, 0), (5, 8, 3), (5, None, LEASED_COUNT),
        (LEASED_COUNT, None, LEASED_COUNT),
    ],
)  # fmt: skip
def test_a_limit_that_is_raised_lets_more_be_leased(before: int | None, after: int | None, count: int) -> None:
    assert gained(QueueSettings(max_leased=before), QueueSettings(max_leased=after)) == count


@pytest.mark.parametrize(
    ("was_paused", "is_paused", "max_leased", "count"),
    [(True, False, None, LEASED_COUNT), (True, False, 5, 5), (True, True, None, 0), (False, True, None, 0)],
)
def test_a_queue_that_is_no_longer_paused_lets_all_be_leased(
    was_paused: bool, is_paused: bool, max_leased: int | None, count: int
) -> None:
    before, after = (QueueSettings(paused=paused, max_leased=max_leased) for paused in (was_paused, is_paused))
    assert gained(before, after) == count
