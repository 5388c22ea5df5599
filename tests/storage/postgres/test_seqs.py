"""A node hands out its numbers in order, however its transactions overlap."""

from couriermq.storage.postgres.seqs import KEPT_SECONDS, Seqs


class Watch:
    """A clock that is moved by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def stocked(*seqs: int) -> Seqs:
    kept = Seqs(Watch())
    kept.add(seqs)
    return kept


def test_numbers_in_stock_are_given_in_order() -> None:
    seqs = stocked(4, 5, 6)
    assert (seqs.take(2), seqs.take(2)) == ([4, 5], [6])


def test_nothing_is_given_that_is_lower_than_what_somebody_else_has_got() -> None:
    seqs = stocked(4, 5, 6, 10)
    seqs.given([7, 8])
    assert seqs.take(4) == [10]


def test_a_transaction_that_comes_back_late_brings_nothing_lower_than_what_was_given() -> None:
    seqs = stocked(13, 14, 15)
    assert seqs.take(1) == [13]
    seqs.add([9, 10, 11, 16])
    assert seqs.take(4) == [14, 15, 16]


def test_numbers_of_two_transactions_are_put_in_order() -> None:
    seqs = stocked(13, 14)
    seqs.add([9, 10])
    assert seqs.newest(14) == 8
    assert seqs.take(4) == [9, 10, 13, 14]


def test_numbers_that_have_grown_old_are_not_given() -> None:
    clock = Watch()
    seqs = Seqs(clock)
    seqs.add([1, 2])
    clock.now += 2 * KEPT_SECONDS
    assert seqs.take(2) == []
