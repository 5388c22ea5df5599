"""What time does to a queue."""

import pytest

from couriermq.core.lifecycle.hasten import hasten
from couriermq.core.model import Draft, Kind, LateAck, Release, State
from couriermq.core.retry import LAPSES
from tests.support.memory import NOW, Memory, plain


def test_a_lease_that_ends_leaves_its_messages_ready_as_one_pack() -> None:
    memory = Memory()
    memory.send(*plain(3))
    memory.receive()
    memory.expire(NOW + 100)
    (pack,) = memory.packs.values()
    assert (pack.state, pack.attempts, pack.due_at) == (State.READY, 1, NOW + 100)
    assert memory.kinds()[-3:] == ["lease_expired"] * 3
    assert [lease.message.attempts for lease in memory.receive(now=NOW + 101)] == [2, 2, 2]


def test_what_was_acked_before_does_not_come_back() -> None:
    memory = Memory()
    memory.send(*plain(3))
    memory.ack(memory.receive()[1])
    memory.expire(NOW + 100)
    assert [lease.message.seq for lease in memory.receive(now=NOW + 101)] == [1, 3]


def test_nothing_happens_a_moment_before() -> None:
    memory = Memory()
    memory.send(*plain(3))
    memory.receive()
    memory.expire(NOW + 99)
    assert memory.figures() == (0, 0, 3, 6)


def test_messages_that_failed_wait_for_the_retry_delay() -> None:
    memory = Memory(retry_delay_ms=50)
    memory.send(*plain(3))
    memory.receive()
    memory.expire(NOW + 100)
    assert memory.figures() == (0, 3, 0, 6)
    memory.expire(NOW + 150)
    assert memory.figures() == (3, 0, 0, 6)


def test_messages_that_wait_for_another_attempt_can_be_hastened() -> None:
    memory = Memory(retry_delay_ms=5_000)
    memory.send(*plain(3))
    memory.receive()
    memory.expire(NOW + 100)
    memory.send(Draft(body=b"x", delay_ms=9_000))
    step = memory.decide(hasten(memory.unit, memory.queue, after=None, limit=2, now=NOW + 200))
    assert (step.count, memory.figures()) == (2, (2, 2, 0, 7))
    step = memory.decide(hasten(memory.unit, memory.queue, after=step.next, limit=2, now=NOW + 200))
    assert (step.count, step.next, memory.figures()) == (1, None, (3, 1, 0, 7))


def test_the_last_attempt_sends_each_message_to_the_dead_letter_queue() -> None:
    memory = Memory(max_attempts=1, dead_letter_queue="dead")
    dead = memory.add("dead")
    memory.send(*plain(3))
    memory.receive()
    memory.expire(NOW + 500)
    assert memory.packs == {}
    assert {(single.queue, single.entered_at) for single in memory.singles.values()} == {(dead.key, NOW + 100)}
    assert memory.figures(dead) == (3, 0, 0, 6)


@pytest.mark.parametrize("count", [1, 3])
def test_a_message_of_an_outbox_does_not_die_when_the_lease_of_its_last_attempt_ends(count: int) -> None:
    memory = Memory()
    outbox = memory.add("outbox", owner="listener", max_attempts=1, dead_letter_queue="dead")
    dead = memory.add("dead")
    memory.send(*plain(3), queue=outbox)
    memory.receive(count, queue=outbox)
    memory.expire(NOW + 100, outbox)
    assert (memory.figures(outbox)[0], memory.figures(dead)[0]) == (3, 0)
    again = memory.receive(queue=outbox, now=NOW + 100)
    assert sorted(lease.message.attempts for lease in again) == [1] * (3 - count) + [2] * count
    outcomes = memory.settle(*[Release(lease.receipt) for lease in again], queue=outbox, now=NOW + 101)
    assert [outcome.dead for outcome in outcomes] == [True] * 3


def test_a_message_of_an_outbox_is_dead_when_too_many_of_its_leases_have_ended() -> None:
    memory = Memory()
    outbox = memory.add("outbox", owner="listener", max_attempts=2, dead_letter_queue="dead")
    dead = memory.add("dead")
    memory.send(*plain(3), queue=outbox)
    for number in range(2 + LAPSES):
        assert (memory.figures(outbox)[0], memory.figures(dead)[0]) == (3, 0)
        memory.receive(queue=outbox, now=NOW + 100 * number)
        memory.expire(NOW + 100 * number + 100, outbox)
    assert (memory.figures(outbox)[0], memory.figures(dead)[0]) == (0, 3)


def test_a_message_of_an_outbox_that_is_given_back_untried_after_too_many_leases_is_not_dead() -> None:
    memory = Memory()
    outbox = memory.add("outbox", owner="listener", max_attempts=1, dead_letter_queue="dead")
    memory.send(*plain(3), queue=outbox)
    memory.receive(queue=outbox)
    memory.expire(NOW + 100, outbox)
    again = memory.receive(queue=outbox, now=NOW + 100)
    outcomes = memory.settle(*[Release(lease.receipt, 0, untried=True) for lease in again], queue=outbox, now=NOW + 101)
    assert [outcome.dead for outcome in outcomes] == [False] * 3
    assert memory.figures(outbox)[0] == 3


def test_a_last_attempt_whose_failure_is_told_after_its_lease_is_the_last_one() -> None:
    memory = Memory()
    outbox = memory.add("outbox", owner="listener", max_attempts=1, dead_letter_queue="dead", late_ack=LateAck.ACCEPT)
    dead = memory.add("dead")
    memory.send(*plain(3), queue=outbox)
    leases = memory.receive(queue=outbox)
    memory.expire(NOW + 100, outbox)
    outcomes = memory.settle(*[Release(lease.receipt) for lease in leases], queue=outbox, now=NOW + 200)
    assert [outcome.dead for outcome in outcomes] == [True] * 3
    assert (memory.figures(outbox)[0], memory.figures(dead)[0]) == (0, 3)


def test_a_delayed_pack_turns_ready_as_a_whole() -> None:
    memory = Memory(delay_ms=50)
    memory.send(*plain(3))
    memory.expire(NOW + 50)
    assert memory.figures() == (3, 0, 0, 6)
    assert memory.unit.ready[memory.queue.key] == 3


def test_a_pack_that_is_too_old_is_discarded_as_a_whole() -> None:
    memory = Memory(retention_ms=1_000)
    memory.send(*plain(3))
    memory.expire(NOW + 1_000)
    assert memory.packs == {}
    assert memory.kinds()[-3:] == ["discarded"] * 3
    assert memory.figures() == (0, 0, 0, 0)


def test_a_leased_message_grows_too_old_as_well() -> None:
    memory = Memory(retention_ms=1_000)
    memory.send(*plain(1))
    memory.receive(lease_ms=5_000)
    memory.expire(NOW + 1_000)
    assert memory.figures() == (0, 0, 0, 0)


def test_a_lease_that_ends_with_the_retention_is_a_failed_attempt_first() -> None:
    memory = Memory(retention_ms=1_000, max_attempts=1, dead_letter_queue="dead")
    dead = memory.add("dead")
    memory.send(*plain(1))
    memory.receive(lease_ms=1_000)
    memory.expire(NOW + 1_000)
    assert memory.figures(dead)[0] == 1


def test_a_retention_of_its_own_wins_over_the_queues() -> None:
    memory = Memory(retention_ms=1_000)
    memory.send(Draft(body=b"x", retention_ms=5_000))
    memory.expire(NOW + 1_000)
    assert memory.figures()[0] == 1
    memory.expire(NOW + 5_000)
    assert memory.figures()[0] == 0


def test_a_group_is_free_again_when_its_lease_ends() -> None:
    memory = Memory()
    line = memory.add("line", Kind.FIFO)
    memory.send(*[Draft(body=b"x", group="g")] * 2, queue=line)
    memory.receive(1, queue=line)
    memory.expire(NOW + 100, line)
    assert [lease.message.seq for lease in memory.receive(now=NOW + 100, queue=line)] == [1, 2]
