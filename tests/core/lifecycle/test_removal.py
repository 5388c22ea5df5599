"""Moves, purges, claims and publications."""

from collections.abc import Generator
from typing import Any

import pytest

from couriermq.core.errors import ClaimGone, Fenced, Invalid, QueuePaused, StageNotFound
from couriermq.core.events import EventKind
from couriermq.core.lifecycle import claim, cursor, needs, publish
from couriermq.core.lifecycle.move import move
from couriermq.core.lifecycle.purge import purge, remove_chosen, sweep
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import RESPONSE_BYTES
from couriermq.core.model import UNENDING, Claim, Draft, Job, Publication, Queue, Release
from couriermq.core.removal import Removable, Removal
from couriermq.core.shards import Newest
from tests.support.memory import NOW, Memory, plain


def moved(memory: Memory, target: Queue | None, source: Queue | None = None, **order: Any) -> cursor.Moved:
    whole = {"seqs": None, "upto": Newest(1_000, NOW), "after": None, "limit": 100, "kind": EventKind.MOVED} | order
    source = source or memory.queue
    step = move(memory.unit, source, target, queues=memory, now=NOW + 5, principal="root", **whole)
    found: cursor.Moved = memory.decide(step)
    return found


class TestMove:
    def test_messages_start_afresh_and_keep_their_bodies_where_they_are(self) -> None:
        memory = Memory()
        bills = memory.add("bills")
        memory.send(*plain(3))
        assert moved(memory, bills).count == 3
        assert {(s.queue, s.entered_at, s.start) for s in memory.singles.values()} == {(bills.key, NOW + 5, 0)}
        assert [lease.message.body for lease in memory.receive(queue=bills)] == [b"m0", b"m1", b"m2"]

    def test_what_is_leased_stays(self) -> None:
        memory = Memory()
        memory.send(*plain(3))
        memory.receive(1)
        assert moved(memory, memory.add("bills")).count == 2
        assert memory.figures()[2] == 1

    def test_what_came_later_stays(self) -> None:
        memory = Memory()
        memory.send(*plain(3))
        assert moved(memory, memory.add("bills"), upto=Newest(2, NOW)).count == 2

    def test_chosen_messages_leave_a_hole_in_their_pack(self) -> None:
        memory = Memory()
        memory.send(*plain(3))
        moved(memory, memory.add("bills"), seqs=[2, 2, 77])
        assert memory.packs[3].seqs() == [1, 3]

    def test_without_a_target_each_goes_to_where_it_died(self) -> None:
        memory = Memory(max_attempts=1, dead_letter_queue="dead")
        dead = memory.add("dead")
        memory.send(*plain(1))
        (lease,) = memory.receive()
        memory.settle(Release(lease.receipt))
        memory.send(*plain(1), queue=dead)
        assert moved(memory, None, dead).count == 1
        assert (memory.figures()[0], memory.figures(dead)[0]) == (1, 1)


class TestPurge:
    def test_a_step_goes_on_behind_the_last(self) -> None:
        memory = Memory()
        memory.send(*plain(5))
        after, counts = None, []
        while True:
            step = purge(
                memory.unit, memory.queue, upto=Newest(9, NOW), after=after, limit=2, now=NOW, principal="root"
            )
            result = memory.decide(step)
            counts.append(result.count)
            after = result.next
            if after is None:
                break
        assert counts == [2, 2, 1]
        assert memory.packs == {}

    def test_chosen_messages_are_removed_whatever_their_state(self) -> None:
        memory = Memory()
        memory.send(*plain(3))
        memory.receive(1)
        chosen = remove_chosen(
            memory.unit, memory.queue, [3, 1, 2**80, -1], kind=EventKind.CANCELLED, now=NOW, principal="root"
        )
        assert memory.decide(chosen) == Removal([3, 1], [])
        assert memory.figures() == (1, 0, 0, 2)

    @pytest.mark.parametrize(("which", "gone", "kept"), [("unleased", [2, 3], [1]), ("untouched", [3], [2, 1])])
    def test_a_message_in_a_state_that_is_not_allowed_stays(self, which: str, gone: list[int], kept: list[int]) -> None:
        memory = Memory()
        memory.send(*plain(3))
        memory.settle(Release(memory.receive(2)[1].receipt, 0))
        step = remove_chosen(
            memory.unit, memory.queue, [2, 1, 3, 77], which=Removable(which), kind="cancelled", now=NOW, principal="me"
        )
        removal = memory.decide(step)
        assert (sorted(removal.gone), removal.kept) == (gone, kept)
        assert memory.figures() == (2 - len(gone), 0, 1, 2 * (3 - len(gone)))

    def test_a_sweep_says_when_nothing_is_left(self) -> None:
        memory = Memory()
        memory.send(*plain(3))
        assert not memory.decide(sweep(memory.unit, memory.queue, now=NOW, limit=2))
        assert memory.decide(sweep(memory.unit, memory.queue, now=NOW, limit=2))

    def test_a_cursor_that_no_page_ended_with_is_refused(self) -> None:
        with pytest.raises(Invalid):
            cursor.read_cursor("yesterday")


class TestClaim:
    def take(self, memory: Memory, number: int = 1, *, epoch: int = 1) -> Claim:
        order = {"epoch": epoch, "limit": 10, "ready_by": NOW, "now": NOW}
        step = claim.take_part(memory.unit, memory.queue, "spark", number, principal="root", **order)
        found: Claim = memory.decide(step)
        return found

    def opened(self, **settings: Any) -> Memory:
        memory = Memory(**settings)
        memory.jobs["spark"] = Job(name="spark", epoch=1, done=0, opened_at=NOW)
        return memory

    def test_messages_are_held_without_end(self) -> None:
        memory = self.opened()
        memory.send(*plain(3), Draft(body=b"x", id="mine"))
        taken = self.take(memory)
        assert (taken.count, taken.is_new) == (4, True)
        assert {pack.due_at for pack in memory.packs.values()} == {UNENDING}
        assert {single.due_at for single in memory.singles.values()} == {UNENDING}

    def test_only_what_was_ready_at_the_instant_is_taken(self) -> None:
        memory = self.opened()
        memory.send(*plain(2))
        memory.send(*plain(2), now=NOW + 1)
        assert self.take(memory).count == 2

    def test_an_earlier_epoch_is_fenced(self) -> None:
        with pytest.raises(Fenced):
            self.take(self.opened(), epoch=7)

    def test_a_number_that_is_done_is_gone(self) -> None:
        memory = self.opened()
        memory.jobs["spark"] = Job(name="spark", epoch=1, done=5, opened_at=NOW)
        with pytest.raises(ClaimGone):
            self.take(memory, 5)

    def test_a_paused_queue_gives_nothing(self) -> None:
        with pytest.raises(QueuePaused):
            self.take(self.opened(paused=True))

    def test_a_claim_with_nothing_in_it_is_not_kept(self) -> None:
        memory = self.opened()
        assert self.take(memory).count == 0
        assert memory.orders == []


class TestReadClaim:
    def read(
        self, memory: Memory, start: int, stop: int, *parts: tuple[int, list[int]]
    ) -> tuple[list[tuple[int, bytes]], int | None]:
        """The bodies at positions of a claim that is made of these parts; and where to go on."""
        memory.claim_parts = list(parts)
        messages, following = memory.decide(claim.read_parts(memory.queue, "spark", 1, start=start, stop=stop))
        return [(position, message.body) for position, message in messages], following

    def claimed(self, *bodies: bytes) -> Memory:
        memory = Memory()
        memory.jobs["spark"] = Job(name="spark", epoch=1, done=0, opened_at=NOW)
        memory.send(*(Draft(body=body) for body in bodies))
        order = {"epoch": 1, "limit": 10, "ready_by": NOW, "now": NOW}
        memory.decide(claim.take_part(memory.unit, memory.queue, "spark", 1, principal="root", **order))
        return memory

    def test_positions_go_over_parts(self) -> None:
        memory, parts = self.claimed(b"a", b"b", b"c", b"d"), ((0, [1, 2]), (2, [3, 4]))
        assert self.read(memory, 1, 3, *parts) == ([(1, b"b"), (2, b"c")], None)
        assert self.read(memory, 0, 99, *parts) == ([(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], None)
        assert self.read(memory, 4, 99, *parts) == ([], None)

    def test_what_does_not_fit_one_response_comes_with_the_next(self) -> None:
        large = b"x" * (RESPONSE_BYTES // 2 + 1)
        memory, part = self.claimed(large, large, b"c"), (0, [1, 2, 3])
        assert self.read(memory, 0, 3, part) == ([(0, large)], 1)
        assert self.read(memory, 1, 3, part) == ([(1, large), (2, b"c")], None)

    def test_a_message_that_is_gone_leaves_its_position_out(self) -> None:
        memory = self.claimed(b"a", b"b", b"c")
        memory.decide(remove_chosen(memory.unit, memory.queue, [2], kind="purged", now=NOW, principal="root"))
        assert self.read(memory, 0, 3, (0, [1, 2, 3])) == ([(0, b"a"), (2, b"c")], None)


class TestPublish:
    def decision(self, memory: Memory, **parts: int) -> Generator[Any, Any, Any]:
        self.landed: list[tuple[str, set[int]]] = []

        def land(
            unit: Unit, target: str, stage: str, keys: set[int], *, now: int, principal: str
        ) -> needs.Deciding[None]:
            self.landed.append((stage, keys))
            yield from ()

        return publish.publish(
            memory.unit, "q", series="s", number=2, stages=["a", "a"], parts=parts, now=NOW, principal="root",
            land=land,
        )  # fmt: skip

    def test_a_stage_lands_once(self) -> None:
        memory = Memory()
        decision = self.decision(memory)
        assert isinstance(next(decision), needs.PublicationOf)
        assert decision.send(None) == needs.StageOf("q", "a")
        with pytest.raises(StopIteration) as end:
            decision.send(needs.HeldStage(3, 2, NOW, {7}))
        assert end.value.value.count == 3
        assert self.landed == [("a", {7})]
        assert [name for name, _ in memory.unit.changes.orders] == ["put_publication"]

    def test_a_number_that_was_published_is_not_published_again(self) -> None:
        memory = Memory()
        decision, known = self.decision(memory), Publication(series="s", number=2, count=3, published_at=1)
        next(decision)
        with pytest.raises(StopIteration) as end:
            decision.send(known)
        assert (end.value.value, self.landed) == (known, [])
        assert {name for name, _ in memory.unit.changes.orders} == {"drop_stage"}

    def test_a_stage_that_is_not_there_is_an_error(self) -> None:
        decision = self.decision(Memory())
        next(decision)
        decision.send(None)
        with pytest.raises(StageNotFound):
            decision.send(None)

    @pytest.mark.parametrize(("parts", "sentence"), [(1, "has 2 parts and not 1"), (3, "has 2 parts and not 3")])
    def test_a_stage_has_as_many_parts_as_its_publication_says(self, parts: int, sentence: str) -> None:
        decision = self.decision(Memory(), a=parts)
        next(decision)
        decision.send(None)
        with pytest.raises(StageNotFound, match=sentence):
            decision.send(needs.HeldStage(3, 2, NOW, {7}))
        assert self.landed == []

    def test_a_stage_that_is_too_old_is_as_good_as_gone(self) -> None:
        decision = self.decision(Memory())
        next(decision)
        decision.send(None)
        with pytest.raises(StageNotFound):
            decision.send(needs.HeldStage(3, 2, NOW - publish.STAGE_MS, {7}))
