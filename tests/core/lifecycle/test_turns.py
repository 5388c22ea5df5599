"""Each event of a message has the next turn, wherever the message is, and says when it was first sent."""

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.move import move
from couriermq.core.lifecycle.purge import purge
from couriermq.core.model import Ack, Draft, Extend, Parcel, Release
from couriermq.core.shards import Newest
from tests.support.memory import NOW, Memory, plain

LATEST = 2**63 - 1


def story(memory: Memory, seq: int = 1) -> list[tuple[str, int | None]]:
    return [(event.kind, event.turn) for event in memory.events if event.seq == seq]


def test_the_messages_of_a_pack_share_their_turn() -> None:
    memory = Memory()
    memory.send(*plain(3))
    memory.receive()
    (pack,) = memory.packs.values()
    assert pack.turn == 2
    assert [story(memory, seq) for seq in (1, 2, 3)] == [[("sent", 1), ("received", 2)]] * 3


def test_both_parts_of_a_pack_that_is_cut_keep_its_turn() -> None:
    memory = Memory()
    memory.send(*plain(3))
    memory.receive(limit=1)
    assert {pack.last: pack.turn for pack in memory.packs.values()} == {1: 2, 3: 1}
    memory.receive()
    assert story(memory, 3) == [("sent", 1), ("received", 2)]
    memory.expire(NOW + 100)
    memory.receive(limit=1, now=NOW + 101)
    memory.receive(limit=1, now=NOW + 101)
    assert story(memory, 2) == [("sent", 1), ("received", 2), ("lease_expired", 3), ("received", 4)]


def test_a_part_of_a_pack_that_is_acked_leaves_the_others_their_turn() -> None:
    memory = Memory()
    memory.send(*plain(3))
    leases = memory.receive()
    memory.ack(leases[0])
    memory.expire(NOW + 100)
    memory.ack(*memory.receive(now=NOW + 101), now=NOW + 101)
    assert story(memory, 1) == [("sent", 1), ("received", 2), ("acked", 3)]
    assert story(memory, 2) == [("sent", 1), ("received", 2), ("lease_expired", 3), ("received", 4), ("acked", 5)]


def test_a_message_that_leaves_its_pack_counts_on_by_itself() -> None:
    memory = Memory()
    memory.send(*plain(2))
    first, second = memory.receive()
    memory.settle(Extend(first.receipt, 500), Release(second.receipt, 0))
    memory.settle(Ack(first.receipt))
    assert story(memory, 1) == [("sent", 1), ("received", 2), ("extended", 3), ("acked", 4)]
    assert story(memory, 2) == [("sent", 1), ("received", 2), ("released", 3)]
    assert memory.singles[2].turn == 3


def test_a_pack_that_is_extended_as_a_whole_counts_on() -> None:
    memory = Memory()
    memory.send(*plain(2))
    leases = memory.receive()
    memory.settle(*(Extend(lease.receipt, 500) for lease in leases))
    memory.ack(*leases)
    assert story(memory, 2) == [("sent", 1), ("received", 2), ("extended", 3), ("acked", 4)]


def test_a_message_counts_on_in_its_dead_letter_queue_and_back() -> None:
    memory = Memory(max_attempts=1, dead_letter_queue="dead")
    dead = memory.add("dead")
    memory.send(Draft(body=b"x"), now=NOW - 7)
    memory.receive()
    memory.expire(NOW + 100)
    decision = move(
        memory.unit, dead, None, queues=memory, seqs=None, upto=Newest(LATEST, LATEST), after=None, limit=9,
        kind=EventKind.REDRIVEN, now=NOW + 200, principal="root",
    )  # fmt: skip
    memory.decide(decision)
    memory.ack(*memory.receive(now=NOW + 201), now=NOW + 201)
    kinds = ["sent", "received", "lease_expired", "dead_lettered", "redriven", "received", "acked"]
    assert story(memory) == [(kind, turn) for turn, kind in enumerate(kinds, 1)]
    assert {event.sent_at for event in memory.events} == {NOW - 7}


def test_a_copy_for_a_listener_is_a_message_of_its_own() -> None:
    memory = Memory()
    outbox = memory.add("outbox")
    draft = Draft(body=b"x")
    memory.send_parcels([Parcel(memory.queue, draft), Parcel(outbox, draft, copy_of=0)])
    memory.receive(queue=outbox)
    assert story(memory, 1) == [("sent", 1)]
    assert story(memory, 2) == [("sent", 1), ("received", 2)]


def test_what_ends_without_an_ack_has_a_turn_too() -> None:
    memory = Memory(retention_ms=1_000)
    memory.send(*plain(2), Draft(body=b"x", retention_ms=10))
    memory.expire(NOW + 10)
    memory.decide(
        purge(memory.unit, memory.queue, upto=Newest(1, NOW), after=None, limit=9, now=NOW + 20, principal="root")
    )
    memory.expire(NOW + 1_000)
    ends = ("purged", "discarded", "discarded")
    assert [story(memory, seq)[1:] for seq in (1, 2, 3)] == [[(kind, 2)] for kind in ends]


def test_a_message_from_before_turns_were_counted_goes_on_from_zero() -> None:
    memory = Memory()
    memory.send(Draft(body=b"x", id="given"))
    memory.singles[1].turn = 0
    memory.receive()
    assert story(memory)[-1] == ("received", 1)
