"""Protection against guessing: how many wrong credentials an address may try, and what they may cost.

Two buckets count wrong credentials: one for an address together with the beginning of the credential, one for the
address as a whole. While one of them is empty, a credential is refused before anything is computed or looked up for
it, so that a right guess gets in no sooner than a wrong one.

An empty bucket of an address does not shut out its other clients: a credential that begins as one which was right
from this address before is still checked, within the limit of its own bucket. So a client whose token has ended
learns so, and one guesser does not lock out the others that share its address.
"""

from functools import lru_cache

from couriermq.auth.throttle import Throttle
from couriermq.clock import Clock
from couriermq.core.errors import Throttled
from couriermq.core.model import DAY, MINUTE, SECOND
from couriermq.web.proxies import site_of

PREFIX_CHARS = 8
"""How much of a token stands for it in the count; a prefix of random secrets names one of them."""
CLIENT_ID_CHARS = 128
PREFIX_BURST = 20
PREFIX_PER_SECOND = 0.2
ADDRESS_BURST = 100
ADDRESS_PER_SECOND = 5.0
ADDRESS_RESUME = 25
"""An address that has used up its count waits until it may try this many again, which is 5 seconds."""
BUCKET_COUNT = 100_000

RIGHT_COUNT = 100_000
RIGHT_MS = DAY
"""How many right credentials are remembered, and for how long after their last use."""
UNKNOWN_COUNT = 10_000
UNKNOWN_MS = 10 * SECOND
"""How many wrong credentials are remembered, and for how long none of them is asked for again."""
QUESTION_BURST = 50
QUESTIONS_PER_SECOND = 10.0
"""How often all wrong credentials together may make a node ask the store whether another node knows them."""

Attempt = tuple[str, str]
"""A client's address, or its network, and the beginning of what it presents."""


class Guard:
    """Counts wrong credentials and remembers right ones, within bounds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_prefix = Throttle(rate=PREFIX_PER_SECOND, burst=PREFIX_BURST, most=BUCKET_COUNT)
        self._by_address = Throttle(
            rate=ADDRESS_PER_SECOND, burst=ADDRESS_BURST, resume=ADDRESS_RESUME, most=BUCKET_COUNT
        )
        self._questions = Throttle(rate=QUESTIONS_PER_SECOND, burst=QUESTION_BURST)
        self._right: dict[Attempt, int] = {}
        self._unknown: dict[Attempt, int] = {}

    def check(self, attempt: Attempt) -> None:
        """Raise Throttled for a credential that must not be looked at now."""
        if not len(self._by_address):
            return
        now = self._clock.now()
        wait_ms = self._by_prefix.blocked_ms(attempt, now=now)
        if not wait_ms and not self._was_right(attempt, now):
            wait_ms = self._by_address.blocked_ms(attempt[0], now=now)
        if wait_ms:
            raise Throttled(wait_ms)

    def count_wrong(self, attempt: Attempt) -> None:
        now = self._clock.now()
        self._by_prefix.wait_ms(attempt, now=now)
        self._by_address.wait_ms(attempt[0], now=now)

    def count_right(self, attempt: Attempt) -> None:
        """Remember a right credential; called for every request, so mostly it does nothing."""
        now = self._clock.now()
        known = self._right.get(attempt)
        if known is None or now - known >= MINUTE:
            self._right.pop(attempt, None)
            self._right[attempt] = now
            if len(self._right) > RIGHT_COUNT:
                del self._right[next(iter(self._right))]

    def may_ask(self, attempt: Attempt) -> bool:
        """Whether a wrong credential is worth a question to the store: it may be new, from another node."""
        now = self._clock.now()
        if self._unknown.get(attempt, 0) > now or self._questions.wait_ms("", now=now):
            return False
        self._unknown.pop(attempt, None)
        self._unknown[attempt] = now + UNKNOWN_MS
        if len(self._unknown) > UNKNOWN_COUNT:
            del self._unknown[next(iter(self._unknown))]
        return True

    def _was_right(self, attempt: Attempt, now: int) -> bool:
        return now - self._right.get(attempt, -RIGHT_MS) < RIGHT_MS


def token_attempt(address: str, token: str) -> Attempt:
    return _site(address), token[:PREFIX_CHARS]


def client_attempt(address: str, client_id: str) -> Attempt:
    """A client is counted by its whole id, which is no secret."""
    return _site(address), f"client {client_id[:CLIENT_ID_CHARS]}"


_site = lru_cache(maxsize=4_096)(site_of)
