"""Token buckets."""

from couriermq.auth.throttle import Throttle


def test_a_burst_is_free_and_then_the_rate_holds() -> None:
    bucket = Throttle()
    waits = [bucket.wait_ms("a", rate=2.0, burst=3.0, now=0) for _ in range(4)]
    assert waits == [0, 0, 0, 500]


def test_whoever_waits_as_told_gets_through() -> None:
    bucket = Throttle()
    bucket.wait_ms("a", rate=2.0, burst=1.0, now=0)
    wait_ms = bucket.wait_ms("a", rate=2.0, burst=1.0, now=100)
    assert bucket.wait_ms("a", rate=2.0, burst=1.0, now=100 + wait_ms) == 0


def test_being_refused_costs_nothing() -> None:
    bucket = Throttle()
    bucket.wait_ms("a", rate=1.0, burst=1.0, now=0)
    for now in range(1, 1000):
        assert bucket.wait_ms("a", rate=1.0, burst=1.0, now=now) > 0
    assert bucket.wait_ms("a", rate=1.0, burst=1.0, now=1000) == 0


def test_keys_do_not_share() -> None:
    bucket = Throttle()
    bucket.wait_ms("a", rate=1.0, burst=1.0, now=0)
    assert bucket.wait_ms("b", rate=1.0, burst=1.0, now=0) == 0


def test_the_bucket_that_was_not_used_for_the_longest_time_makes_room() -> None:
    bucket = Throttle(rate=1.0, burst=1.0, most=3)
    for key in ("a", "b", "c", "a", "d"):
        bucket.wait_ms(key, now=0)
    assert len(bucket) == 3
    assert (bucket.blocked_ms("a", now=0), bucket.blocked_ms("b", now=0)) == (1_000, 0)


def test_looking_takes_nothing() -> None:
    bucket = Throttle(rate=1.0, burst=1.0)
    assert [bucket.blocked_ms("a", now=0) for _ in range(3)] == [0, 0, 0]
    bucket.wait_ms("a", now=0)
    assert [bucket.blocked_ms("a", now=500) for _ in range(3)] == [500, 500, 500]


def test_what_is_left_is_told_without_taking_any() -> None:
    throttle = Throttle()
    assert throttle.left("a", rate=2.0, burst=4.0, now=1_000) == (4, 1_000)
    throttle.wait_ms("a", rate=2.0, burst=4.0, now=1_000)
    assert throttle.left("a", rate=2.0, burst=4.0, now=1_000) == (3, 1_500)
    assert throttle.left("a", rate=2.0, burst=4.0, now=1_000) == (3, 1_500)
    assert throttle.left("a", rate=2.0, burst=4.0, now=2_000) == (4, 2_000)


def test_an_empty_bucket_blocks_until_it_has_filled_up_to_where_it_resumes() -> None:
    bucket = Throttle(rate=1.0, burst=10.0, resume=5.0)
    for _ in range(9):
        bucket.wait_ms("a", now=0)
    assert bucket.blocked_ms("a", now=0) == 0
    bucket.wait_ms("a", now=0)
    assert bucket.blocked_ms("a", now=0) == 5_000
    assert bucket.blocked_ms("a", now=4_999) == 1
    assert bucket.blocked_ms("a", now=5_000) == 0
    bucket.wait_ms("a", now=5_000)
    assert bucket.blocked_ms("a", now=5_000) == 0
