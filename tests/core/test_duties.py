"""Work that is done once is spread over the nodes that live, and moves as little as can be."""

from collections import Counter

from couriermq.core.duties import DELIVERY, DUTIES, delivery_to, owner

NODES = [-2_000_000_000, -1_999_999_999, -1_500_000_000]


def test_every_node_gets_a_fair_part() -> None:
    shares = Counter(owner(duty, NODES) for duty in DELIVERY)
    assert set(shares) == set(NODES)
    assert max(shares.values()) < len(DELIVERY) / 2


def test_when_a_node_goes_only_its_own_duties_move() -> None:
    before = {duty: owner(duty, NODES) for duty in DUTIES}
    after = {duty: owner(duty, NODES[1:]) for duty in DUTIES}
    assert {duty for duty in DUTIES if before[duty] != after[duty]} == {d for d in DUTIES if before[d] == NODES[0]}


def test_nobody_owns_anything_where_nobody_lives() -> None:
    assert owner(DUTIES[0], []) is None


def test_listeners_are_spread_over_all_parts() -> None:
    assert {delivery_to(f"listener-{number}") for number in range(2_000)} == set(DELIVERY)
