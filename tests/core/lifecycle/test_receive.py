"""Leasing what is ready."""

import pytest

from couriermq.core.lifecycle import receive
from couriermq.core.limits import COMMIT_BYTES, RESPONSE_BYTES
from couriermq.core.model import Draft, Kind, Release, State
from tests.support.memory import NOW, Memory, plain


def test_a_whole_pack_is_leased_as_it_is() -> None:
    memory = Memory()
    memory.send(*plain(5))
    leases = memory.receive()
    assert [lease.message.body for lease in leases] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    (pack,) = memory.packs.values()
    assert (pack.state, pack.attempts, pack.due_at) == (State.LEASED, 1, NOW + 100)
    assert memory.figures() == (0, 0, 5, 10)


def test_the_first_messages_of_a_pack_become_a_pack_of_their_own() -> None:
    memory = Memory()
    memory.send(*plain(5))
    memory.receive(2)
    leased, rest = memory.packs[2], memory.packs[5]
    assert (leased.first, leased.remaining, leased.state) == (1, 2, State.LEASED)
    assert (rest.first, rest.remaining, rest.state) == (3, 3, State.READY)
    assert [lease.message.body for lease in memory.receive()] == [b"m2", b"m3", b"m4"]


def test_one_receive_takes_from_several_packs() -> None:
    memory = Memory()
    for n in range(3):
        memory.send(*plain(2), now=NOW + n)
    assert len(memory.receive(5, now=NOW + 5)) == 5
    assert [pack.state for pack in memory.packs.values()].count(State.LEASED) == 3


def test_a_single_has_its_place_among_packed_messages() -> None:
    memory = Memory()
    memory.send(*plain(2), Draft(body=b"mine", id="mine"), *plain(2))
    assert [lease.message.seq for lease in memory.receive()] == [1, 2, 3, 4, 5]


def test_what_was_released_stands_behind_what_waited_longer() -> None:
    memory = Memory()
    memory.send(*plain(3))
    (first,) = memory.receive(1)
    memory.settle(Release(first.receipt), now=NOW + 1)
    assert [lease.message.seq for lease in memory.receive(now=NOW + 2)] == [2, 3, 1]


def test_receivers_of_one_commit_share_a_lease_row_and_no_message() -> None:
    memory = Memory()
    memory.send(*plain(4))
    orders = [receive.Order(1, 100, NOW, f"receiver-{n}") for n in range(4)]
    found = memory.decide(receive.receive(memory.unit, memory.queue, orders, sealer=memory.sealer, now=NOW))
    assert [[lease.message.seq for lease in leases] for leases in found] == [[1], [2], [3], [4]]
    assert len(memory.packs) == 1
    assert len({lease.receipt for leases in found for lease in leases}) == 4


def test_receivers_with_other_leases_have_other_rows() -> None:
    memory = Memory()
    memory.send(*plain(2))
    orders = [receive.Order(1, lease_ms, NOW, "root") for lease_ms in (100, 200)]
    memory.decide(receive.receive(memory.unit, memory.queue, orders, sealer=memory.sealer, now=NOW))
    assert [pack.due_at for pack in memory.packs.values()] == [NOW + 200, NOW + 100]


def test_a_receiver_gets_no_more_than_fits_into_a_response() -> None:
    memory = Memory()
    memory.send(*[Draft(body=b"x" * (RESPONSE_BYTES // 2))] * 3)
    memory.unit.ready.clear()
    assert len(memory.receive()) == 2
    assert memory.unit.ready == {memory.queue.key: 1}  # others hear of the rest


def test_a_message_that_is_larger_than_a_response_comes_alone() -> None:
    memory = Memory()
    memory.send(*[Draft(body=b"x" * (RESPONSE_BYTES + 1))] * 2)
    assert len(memory.receive()) == 1


def test_a_receiver_that_finds_no_room_in_the_commit_is_to_ask_again() -> None:
    memory = Memory()
    memory.send(*[Draft(body=b"x" * RESPONSE_BYTES)] * 4)
    orders = [receive.Order(1, 100, NOW, "root")] * 4
    found = memory.decide(receive.receive(memory.unit, memory.queue, orders, sealer=memory.sealer, now=NOW))
    room = COMMIT_BYTES // RESPONSE_BYTES
    assert [leases is None for leases in found] == [False] * room + [True] * (4 - room)


def test_attributes_count_for_the_response() -> None:
    memory = Memory()
    heavy = Draft(body=b"x" * (RESPONSE_BYTES // 2), attributes={"a": "b" * 100})
    memory.send(heavy, heavy)
    assert len(memory.receive()) == 1


@pytest.mark.parametrize("group_limit", [1, 2])
def test_a_group_is_locked_while_a_message_of_it_is_leased(group_limit: int) -> None:
    memory = Memory()
    line = memory.add("line", Kind.FIFO)
    memory.send(*[Draft(body=b"x", group=group) for group in "aab"], queue=line)
    taken = memory.receive(queue=line, group_limit=group_limit)
    assert [lease.message.group for lease in taken] == ["a"] * group_limit + ["b"]
    assert memory.receive(queue=line) == []


def test_nothing_is_asked_about_an_empty_queue() -> None:
    memory = Memory()
    decision = receive.receive(
        memory.unit, memory.queue, [receive.Order(1, 100, NOW, "root")], sealer=memory.sealer, now=NOW
    )
    with pytest.raises(StopIteration):
        next(decision)


def test_what_a_node_whose_clock_is_ahead_has_sent_is_ready_in_every_kind_of_queue() -> None:
    memory = Memory()
    for queue in (memory.queue, memory.add("line", Kind.FIFO)):
        memory.send(Draft(body=b"x"), queue=queue, now=NOW + 300)
        memory.send(Draft(body=b"later", group="g", delay_ms=100), queue=queue, now=NOW)
        assert [lease.message.body for lease in memory.receive(queue=queue, now=NOW)] == [b"x"]
