"""Messages that go to a queue of another shard arrive once, with all that is known of them."""

from couriermq.core.lifecycle import travel
from couriermq.core.lifecycle.move import move
from couriermq.core.lifecycle.purge import purge
from couriermq.core.lifecycle.travel import Traveller
from couriermq.core.model import Draft, Kind, State
from couriermq.core.shards import Newest, first_of
from tests.support.memory import NOW, Memory


def on_the_way(memory: Memory, key: int = 2) -> list[Traveller]:
    travelling: list[Traveller] = memory.decide(travel.travellers(memory.unit, key, limit=10))
    return travelling


def departed() -> tuple[Memory, list[Traveller]]:
    """A message that died on a shard where its dead letter queue has a stand-in, with the key 2."""
    memory = Memory(max_attempts=1, dead_letter_queue="dead")
    memory.add("dead")
    memory.send(Draft(body=b"x", attributes={"n": 1}, group="g"), now=NOW - 5)
    memory.receive()
    memory.expire(NOW + 100)
    return memory, on_the_way(memory)


def test_a_message_arrives_with_its_turn_and_when_it_was_sent() -> None:
    _, travelling = departed()
    there = Memory()
    there.decide(travel.arrive(there.unit, there.queue, travelling, now=NOW + 200))
    (lease,) = there.receive(now=NOW + 200)
    message = lease.message
    assert (message.body, message.attributes, message.group, message.sent_at) == (b"x", {"n": 1}, "g", NOW - 5)
    assert message.death is not None
    there.ack(lease, now=NOW + 201)
    assert [(event.kind, event.turn, event.sent_at) for event in there.events] == [
        ("received", 5, NOW - 5), ("acked", 6, NOW - 5)
    ]  # fmt: skip


def test_a_message_that_is_carried_twice_arrives_once() -> None:
    memory, travelling = departed()
    there = Memory()
    there.decide(travel.arrive(there.unit, there.queue, travelling, now=NOW + 200))
    there.ack(*there.receive(now=NOW + 201), now=NOW + 202)
    there.decide(travel.arrive(there.unit, there.queue, on_the_way(memory), now=NOW + 203))
    assert there.figures() == (0, 0, 0, 0)
    assert there.receive(now=NOW + 204) == []


def test_a_message_that_comes_back_arrives_again() -> None:
    memory, travelling = departed()
    there = Memory()
    there.decide(travel.arrive(there.unit, there.queue, travelling, now=NOW + 200))
    memory.decide(travel.depart(memory.unit, 2, [seq for seq, _, _ in travelling]))
    home = there.add("home")
    decision = move(
        there.unit, there.queue, home, queues=there, seqs=None, upto=Newest(99, NOW + 300), after=None, limit=9,
        kind="redriven", now=NOW + 300, principal="root",
    )  # fmt: skip
    there.decide(decision)
    memory.decide(travel.arrive(memory.unit, memory.queue, on_the_way(there), now=NOW + 301))
    (lease,) = memory.receive(now=NOW + 302)
    assert (lease.message.body, lease.message.attempts) == (b"x", 1)
    assert memory.events[-1].turn == 6


def test_what_has_arrived_is_forgotten_where_it_was() -> None:
    memory, travelling = departed()
    assert memory.tally(2).counts[State.READY] == 1
    memory.decide(travel.depart(memory.unit, 2, [seq for seq, _, _ in travelling]))
    assert (memory.tally(2).total, memory.singles, on_the_way(memory)) == (0, {}, [])


def test_a_message_takes_its_place_in_a_group() -> None:
    _, travelling = departed()
    there = Memory()
    line = there.add("line", kind=Kind.FIFO)
    there.decide(travel.arrive(there.unit, line, travelling, now=NOW + 200))
    assert there.groups == {(line.key, "g"): [1, NOW + 100, 0]}
    assert len(there.receive(queue=line, now=NOW + 201)) == 1


def test_a_purge_removes_messages_that_came_from_a_shard_with_higher_numbers() -> None:
    there = Memory()
    _, ((_, single, body),) = departed()
    single.seq = first_of(3) + 7
    there.decide(travel.arrive(there.unit, there.queue, [(single.seq, single, body)], now=NOW + 200))
    step = there.decide(
        purge(there.unit, there.queue, upto=Newest(1, NOW + 300), after=None, limit=9, now=NOW + 300, principal="root")
    )
    assert (step.count, there.figures()) == (1, (0, 0, 0, 0))
