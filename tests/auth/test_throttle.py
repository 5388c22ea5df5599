"""Token buckets."""

from couriermq.auth import throttle
from couriermq.auth.throttle import Throttle


def test_a_burst_is_free_and_then_the_rate_holds():
    bucket = Throttle()
    waits = [bucket.wait_ms("a", rate=2.0, burst=3.0, now=0) for _ in range(4)]
    assert waits == [0, 0, 0, 500]


def test_whoever_waits_as_told_gets_through():
    bucket = Throttle()
    bucket.wait_ms("a", rate=2.0, burst=1.0, now=0)
    wait_ms = bucket.wait_ms("a", rate=2.0, burst=1.0, now=100)
    assert bucket.wait_ms("a", rate=2.0, burst=1.0, now=100 + wait_ms) == 0


def test_being_refused_costs_nothing():
    bucket = Throttle()
    bucket.wait_ms("a", rate=1.0, burst=1.0, now=0)
    for now in range(1, 1000):
        assert bucket.wait_ms("a", rate=1.0, burst=1.0, now=now) > 0
    assert bucket.wait_ms("a", rate=1.0, burst=1.0, now=1000) == 0


def test_keys_do_not_share():
    bucket = Throttle()
    bucket.wait_ms("a", rate=1.0, burst=1.0, now=0)
    assert bucket.wait_ms("b", rate=1.0, burst=1.0, now=0) == 0


def test_full_buckets_are_forgotten_and_others_kept(monkeypatch):
    monkeypatch.setattr(throttle, "SWEEP_COUNT", 10)
    bucket = Throttle()
    for number in range(10):
        bucket.wait_ms(f"old {number}", rate=1.0, burst=1.0, now=0)
    bucket.wait_ms("busy", rate=1.0, burst=1.0, now=1_500)
    bucket.wait_ms("new", rate=1.0, burst=1.0, now=2_000)
    assert len(bucket) == 2
    assert bucket.wait_ms("busy", rate=1.0, burst=1.0, now=2_000) == 500


def test_what_is_left_is_told_without_taking_any() -> None:
    throttle = Throttle()
    assert throttle.left("a", rate=2.0, burst=4.0, now=1_000) == (4, 1_000)
    throttle.wait_ms("a", rate=2.0, burst=4.0, now=1_000)
    assert throttle.left("a", rate=2.0, burst=4.0, now=1_000) == (3, 1_500)
    assert throttle.left("a", rate=2.0, burst=4.0, now=1_000) == (3, 1_500)
    assert throttle.left("a", rate=2.0, burst=4.0, now=2_000) == (4, 2_000)
