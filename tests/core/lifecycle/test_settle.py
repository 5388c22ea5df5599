"""Ack, release and extend by receipt."""

from typing import Any

import pytest

from couriermq.core.errors import InvalidReceipt, LeaseLost
from couriermq.core.model import Ack, Draft, Extend, Kind, LateAck, Lease, Parcel, Release, Settled, State
from tests.support.memory import NOW, Memory, plain


def leased(count: int = 3, **settings: Any) -> tuple[Memory, list[Lease]]:
    memory = Memory(**settings)
    memory.send(*plain(count))
    return memory, memory.receive(count)


class TestAck:
    def test_acks_of_a_whole_lease_delete_one_row(self) -> None:
        memory, leases = leased()
        assert [outcome.id for outcome in memory.ack(*leases)] == [lease.message.id for lease in leases]
        assert memory.packs == {}
        assert memory.figures() == (0, 0, 0, 0)
        assert memory.tally(memory.queue.key).acked == 3

    def test_acks_of_a_part_leave_the_rest_leased(self) -> None:
        memory, leases = leased(5)
        memory.ack(leases[1], leases[3])
        (pack,) = memory.packs.values()
        assert pack.seqs() == [1, 3, 5]
        assert memory.figures() == (0, 0, 3, 6)
        memory.ack(leases[0], leases[2], leases[4])
        assert memory.packs == {}

    def test_a_receipt_settles_once_even_if_it_is_named_twice(self) -> None:
        memory, leases = leased()
        first, again = memory.ack(leases[0], leases[0])
        assert isinstance(first, Settled)
        assert isinstance(again, LeaseLost)
        assert memory.figures()[2] == 2

    def test_a_receipt_of_an_acked_message_is_lost(self) -> None:
        memory, leases = leased()
        memory.ack(leases[0])
        (outcome,) = memory.ack(leases[0])
        assert isinstance(outcome, LeaseLost)

    def test_a_receipt_that_nobody_wrote_is_invalid(self) -> None:
        memory, leases = leased()
        invalid, fine = memory.settle(Ack("made up"), Ack(leases[0].receipt))
        assert isinstance(invalid, InvalidReceipt)
        assert isinstance(fine, Settled)

    def test_a_receipt_of_another_queue_is_invalid(self) -> None:
        memory, leases = leased()
        (outcome,) = memory.settle(Ack(leases[0].receipt), queue=memory.add("bills"))
        assert isinstance(outcome, InvalidReceipt)

    def test_a_lease_that_has_ended_is_lost_at_its_very_end(self) -> None:
        memory, leases = leased()
        assert isinstance(memory.ack(leases[0], now=NOW + 100)[0], LeaseLost)

    def test_a_late_ack_counts_where_the_queue_accepts_it(self) -> None:
        memory, leases = leased(late_ack=LateAck.ACCEPT)
        memory.expire(NOW + 100)
        (outcome,) = memory.ack(leases[1], now=NOW + 200)
        assert isinstance(outcome, Settled)
        assert memory.figures() == (2, 0, 0, 4)

    def test_an_ack_by_an_older_receipt_does_not_touch_the_newer_lease(self) -> None:
        memory, leases = leased(1)
        memory.expire(NOW + 100)
        (newer,) = memory.receive(now=NOW + 100)
        assert isinstance(memory.ack(leases[0], now=NOW + 150)[0], LeaseLost)
        assert isinstance(memory.ack(newer, now=NOW + 150)[0], Settled)

    def test_the_original_leaves_with_its_last_copy(self) -> None:
        memory = Memory(keep_delivered=False)
        outbox, draft = memory.add("outbox"), Draft(body=b"x")
        parcels = [Parcel(memory.queue, draft), Parcel(outbox, draft, copy_of=0), Parcel(outbox, draft, copy_of=0)]
        memory.send_parcels(parcels)
        first, second = memory.receive(queue=outbox)
        memory.settle(Ack(first.receipt), queue=outbox)
        assert memory.figures()[0] == 1
        memory.settle(Ack(second.receipt), queue=outbox)
        assert memory.figures()[0] == 0

    def test_an_original_that_somebody_holds_is_theirs_to_settle(self) -> None:
        memory = Memory(keep_delivered=False)
        outbox, draft = memory.add("outbox"), Draft(body=b"x")
        memory.send_parcels([Parcel(memory.queue, draft), Parcel(outbox, draft, copy_of=0)])
        memory.receive()
        (copy,) = memory.receive(queue=outbox)
        memory.settle(Ack(copy.receipt), queue=outbox)
        assert memory.figures()[2] == 1

    def test_a_group_is_free_again_once_its_messages_are_acked(self) -> None:
        memory = Memory()
        line = memory.add("line", Kind.FIFO)
        memory.send(*[Draft(body=b"x", group="g")] * 3, queue=line)
        first, second = memory.receive(2, queue=line)
        memory.settle(Ack(first.receipt), queue=line)
        assert memory.receive(queue=line) == []
        memory.settle(Ack(second.receipt), queue=line)
        assert [lease.message.seq for lease in memory.receive(queue=line)] == [3]


class TestRelease:
    def test_a_released_message_is_a_row_of_its_own(self) -> None:
        memory, leases = leased()
        memory.settle(Release(leases[1].receipt))
        (single,) = memory.singles.values()
        assert (single.seq, single.state, single.attempts) == (2, State.READY, 1)
        assert memory.figures() == (1, 0, 2, 6)

    @pytest.mark.parametrize(("delay_ms", "due_at"), [(None, NOW + 70), (500, NOW + 500)])
    def test_it_waits_for_the_delay(self, delay_ms: int | None, due_at: int) -> None:
        memory, leases = leased(retry_delay_ms=70)
        memory.settle(Release(leases[0].receipt, delay_ms))
        (single,) = memory.singles.values()
        assert (single.state, single.due_at) == (State.DELAYED, due_at)

    def test_an_untried_release_counts_for_no_attempt(self) -> None:
        memory, leases = leased(max_attempts=1)
        (outcome,) = memory.settle(Release(leases[0].receipt, untried=True))
        assert not outcome.dead
        assert memory.singles[1].attempts == 0

    def test_after_the_last_attempt_it_is_discarded_where_there_is_no_dead_letter_queue(self) -> None:
        memory, leases = leased(max_attempts=1)
        (outcome,) = memory.settle(Release(leases[0].receipt))
        assert outcome.dead
        assert memory.kinds()[-1] == "discarded"
        assert memory.tally(memory.queue.key).dead == 1

    def test_after_the_last_attempt_it_goes_to_the_dead_letter_queue(self) -> None:
        memory, leases = leased(max_attempts=1, dead_letter_queue="dead")
        dead = memory.add("dead")
        memory.settle(Release(leases[0].receipt))
        (single,) = memory.singles.values()
        assert (single.queue, single.state, single.attempts, single.entered_at) == (dead.key, State.READY, 0, NOW)
        assert single.died is not None
        assert (single.died.source_queue, single.died.attempts) == ("orders", 1)

    def test_a_dead_letter_queue_that_is_gone_is_none(self) -> None:
        memory, leases = leased(max_attempts=1, dead_letter_queue="never was")
        memory.settle(Release(leases[0].receipt))
        assert memory.singles == {}

    def test_a_late_release_moves_the_next_attempt_where_the_queue_accepts_it(self) -> None:
        memory, leases = leased(late_ack=LateAck.ACCEPT)
        memory.expire(NOW + 100)
        (outcome,) = memory.settle(Release(leases[1].receipt, 500), now=NOW + 200)
        assert isinstance(outcome, Settled)
        assert (memory.singles[2].state, memory.singles[2].due_at) == (State.DELAYED, NOW + 700)
        assert memory.figures() == (2, 1, 0, 6)

    def test_a_late_release_is_lost_where_somebody_else_holds_the_message(self) -> None:
        memory, leases = leased(late_ack=LateAck.ACCEPT)
        memory.expire(NOW + 100)
        memory.receive(now=NOW + 100)
        (outcome,) = memory.settle(Release(leases[1].receipt, 500), now=NOW + 150)
        assert isinstance(outcome, LeaseLost)


class TestExtend:
    def test_a_whole_lease_stays_one_row(self) -> None:
        memory, leases = leased()
        outcomes = memory.settle(*(Extend(lease.receipt, 900) for lease in leases))
        assert {outcome.expires_at for outcome in outcomes} == {NOW + 900}
        (pack,) = memory.packs.values()
        assert pack.due_at == NOW + 900

    def test_a_part_of_a_lease_has_rows_of_its_own(self) -> None:
        memory, leases = leased()
        memory.settle(Extend(leases[0].receipt, 900))
        assert memory.singles[1].due_at == NOW + 900
        assert memory.packs[3].seqs() == [2, 3]

    def test_the_receipt_stays_good(self) -> None:
        memory, leases = leased()
        memory.settle(Extend(leases[0].receipt, 900))
        memory.expire(NOW + 100)
        assert isinstance(memory.ack(leases[0], now=NOW + 500)[0], Settled)

    def test_what_was_released_in_the_same_call_cannot_be_extended(self) -> None:
        memory, leases = leased()
        receipt = leases[0].receipt
        _, outcome = memory.settle(Release(receipt), Extend(receipt, 900))
        assert isinstance(outcome, LeaseLost)
