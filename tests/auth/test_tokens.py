"""Access tokens hold on every node, whichever issued them and whichever they are used at."""

import hashlib

from couriermq.auth.tokens import AccessTokens

KEY, SECRET = b"k" * 32, b"s" * 32
TTL = 60_000


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def admits(node: AccessTokens, token: str, now: int) -> bool:
    return node.admits(token, digest(token), SECRET, now) is True


def test_a_token_holds_on_a_node_that_did_not_issue_it() -> None:
    one, other = AccessTokens(KEY), AccessTokens(KEY)
    token = one.issue("shop", SECRET, ttl_ms=TTL, sliding=False, now=0)
    assert admits(other, token, TTL - 1)
    assert not admits(other, token, TTL)


def test_a_sliding_token_lives_everywhere_while_it_is_used_anywhere() -> None:
    one, other = AccessTokens(KEY), AccessTokens(KEY)
    token = one.issue("shop", SECRET, ttl_ms=TTL, sliding=True, now=0)
    assert admits(other, token, TTL // 2)
    one.restore(other.snapshot(TTL // 2))
    assert admits(one, token, TTL + 1)
    other.restore(one.snapshot(TTL + 1))
    assert admits(other, token, 2 * TTL)
    assert not admits(other, token, 3 * TTL)


def test_what_two_nodes_keep_in_turn_forgets_neither_ones_tokens() -> None:
    one, other = AccessTokens(KEY), AccessTokens(KEY)
    first = one.issue("shop", SECRET, ttl_ms=TTL, sliding=True, now=0)
    second = other.issue("shop", SECRET, ttl_ms=TTL, sliding=True, now=7)
    assert first != second
    other.restore(one.snapshot(10))
    kept = other.snapshot(10)
    later = AccessTokens(KEY)
    later.restore(kept)
    assert later.issue("shop", SECRET, ttl_ms=TTL, sliding=True, now=20) in {first, second}
    assert admits(later, first, 30)
    assert admits(later, second, 30)
