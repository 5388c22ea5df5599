"""Made-up lives of messages: arrivals, attempts, failures, deaths and deliveries, a whole stretch of time at once.

A row is an event to be. Rows of one stretch reach into later ones (a retry an hour from now), so whoever asks for
stretches keeps what is left over and sorts it in with the next.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

KINDS = (
    "sent", "received", "acked", "released", "extended", "lease_expired", "dead_lettered", "discarded", "purged",
    "redriven",
)  # fmt: skip
(SENT, RECEIVED, ACKED, RELEASED, EXTENDED, LEASE_EXPIRED, DEAD_LETTERED, DISCARDED, PURGED, REDRIVEN) = range(10)

MAX_ATTEMPTS = 4
LEASE_MS = 30_000
RETENTION_MS = 4 * 3_600_000
DAY_MS = 86_400_000
BODIES = 20_000
"""How many bodies there are to choose from."""

PLAIN, DELIVERED, RETRY, DEAD, LAST = range(5)
"""What the detail of an event tells beside its kind: nothing more, a delivery and its verdict, the last delivery."""


class Lane(NamedTuple):
    """A queue in which messages live: where dead ones go, and the outbox of its listener, as places among the lanes."""

    tenant: str
    queue_id: str
    queue: str
    dead: int = -1
    outbox: int = -1
    weight: float = 0.0
    """How much of all that is sent is sent here."""
    failing: float = 0.0
    """Which share of attempts fails."""


def row_type() -> "np.dtype[Any]":
    import numpy as np  # noqa: PLC0415

    return np.dtype(
        [
            ("written", "i8"), ("at", "i8"), ("seq", "i8"), ("origin", "i8"), ("body", "i4"), ("lane", "i2"),
            ("kind", "i1"), ("attempt", "i1"), ("note", "i1"), ("latency", "i4"), ("sent", "i8"), ("turn", "i8"),
        ]
    )  # fmt: skip


class Lives:
    """Everything is drawn from one seed: the same lanes, start and pace give the same lives."""

    def __init__(self, lanes: list[Lane], *, seed: int, start_ms: int, per_second: float) -> None:
        import numpy as np  # noqa: PLC0415

        self._np = np
        self._dice = np.random.default_rng(seed)
        self._now = float(start_ms)
        self._per_ms = per_second / 1_000
        self._lanes = lanes
        weights = np.array([lane.weight for lane in lanes])
        self._weights = weights / weights.sum()
        self._failing = np.array([lane.failing for lane in lanes])
        self._outbox = np.array([lane.outbox for lane in lanes], dtype="i2")
        self._dead = np.array([lane.dead for lane in lanes], dtype="i2")
        self.next_seq = 1

    def stretch(self, count: int) -> tuple["np.ndarray[Any, Any]", int]:
        """The events of the next `count` messages, in no order, and the instant up to which nothing else comes."""
        np, dice = self._np, self._dice
        wave = 1 + 0.6 * np.sin(2 * np.pi * self._now / DAY_MS)
        length = count / (self._per_ms * wave)
        at = np.sort(dice.uniform(self._now, self._now + length, count)).astype("i8")
        self._now += length
        sent = np.zeros(count, row_type())
        sent["at"] = sent["written"] = sent["sent"] = at
        sent["turn"] = 1
        sent["lane"] = dice.choice(len(self._lanes), count, p=self._weights)
        sent["body"] = dice.integers(0, BODIES, count)
        copied = self._outbox[sent["lane"]] >= 0
        sent["seq"] = self.next_seq + np.arange(count) + np.cumsum(copied) - copied
        sent["origin"] = sent["seq"]
        self.next_seq += count + int(copied.sum())
        rows = [sent, *self._delivered(sent[copied]), *self._consumed(sent[~copied])]
        return np.concatenate(rows), int(self._now)

    # -- parts of lives ---------------------------------------------------------------------------------------

    def _consumed(self, sent: Any) -> list[Any]:
        """Received and acked, most of them; some wait in vain, and some fail until they are dead."""
        chance = self._dice.random(len(sent))
        forgotten, purged = sent[chance < 0.004], sent[(chance >= 0.004) & (chance < 0.005)]
        lost = _then(forgotten, DISCARDED, RETENTION_MS)
        lost["written"] += self._dice.integers(0, 60_000, len(lost))
        rows, dead = self._attempts(sent[chance >= 0.005], wait_ms=300)
        return [
            *rows,
            lost,
            _then(purged, PURGED, self._dice.integers(1, 1_800_000, len(purged))),
            *self._redriven(dead),
        ]

    def _attempts(self, waiting: Any, *, wait_ms: float, note: bool = False) -> tuple[list[Any], Any]:
        """Attempts of messages until they are acked or dead; and those that are dead, as they were last."""
        rows = []
        for attempt in range(1, MAX_ATTEMPTS + 1):
            received = _then(waiting, RECEIVED, self._lasting(len(waiting), wait_ms * attempt**3))
            received["attempt"] = attempt
            fails = self._dice.random(len(received)) < self._failing[received["lane"]]
            acked, failed = received[~fails], received[fails]
            rows += [received, *self._succeeded(acked, note)]
            waiting = self._failed(failed, note, last=attempt == MAX_ATTEMPTS)
            rows.append(waiting)
            if not len(waiting):
                break
        dead = _then(waiting, DEAD_LETTERED, 0)
        dead["at"] = waiting["at"]
        return [*rows, dead], dead

    def _succeeded(self, received: Any, note: bool) -> list[Any]:
        took = self._lasting(len(received), 80)
        acked = _then(received, ACKED, took)
        if note:
            acked["note"], acked["latency"] = DELIVERED, took
            return [acked]
        slow = self._dice.random(len(received)) < 0.02
        extended = _then(received[slow], EXTENDED, 0)
        acked["turn"][slow] += 1
        return [extended, acked]

    def _failed(self, received: Any, note: bool, *, last: bool) -> Any:
        """Given back, or left until the lease ended, which may be noticed a good while later."""
        failed = _then(received, RELEASED, self._lasting(len(received), 120))
        if note:
            failed["note"], failed["latency"] = DEAD if last else RETRY, failed["at"] - received["at"]
            return failed
        left = self._dice.random(len(failed)) < 0.25
        failed["kind"][left] = LEASE_EXPIRED
        failed["at"][left] = received["at"][left] + LEASE_MS
        noticed = self._dice.integers(0, 150_000, int(left.sum()))
        failed["written"][left] = failed["at"][left] + noticed
        return failed

    def _redriven(self, dead: Any) -> list[Any]:
        """A part of the dead letters gets another life: an operator sends them back, many at a time."""
        chosen = dead[self._dice.random(len(dead)) < 0.3]
        back = _then(chosen, REDRIVEN, 600_000 + self._dice.integers(0, 60, len(chosen)) * 60_000)
        source = back["lane"].copy()
        back["lane"] = self._dead[source]
        again = back.copy()
        again["lane"] = source
        received = _then(again, RECEIVED, self._lasting(len(again), 300))
        received["attempt"] = 1
        return [back, received, _then(received, ACKED, self._lasting(len(received), 80))]

    def _delivered(self, sent: Any) -> list[Any]:
        """Copies for a listener, attempt by attempt; the original is acked when its copy is delivered."""
        copies = sent.copy()
        copies["seq"] += 1
        copies["lane"] = self._outbox[sent["lane"]]
        rows, _ = self._attempts(copies, wait_ms=15, note=True)
        arrived = self._np.concatenate([part[part["kind"] == ACKED] for part in rows])
        originals = arrived.copy()
        originals["seq"] = originals["origin"]
        originals["lane"] = self._source_of(arrived["lane"])
        originals["attempt"], originals["note"], originals["turn"] = 0, LAST, 2
        return [copies, *rows, originals]

    def _source_of(self, outboxes: Any) -> Any:
        sources = self._np.zeros(len(self._lanes), "i2")
        for index, lane in enumerate(self._lanes):
            if lane.outbox >= 0:
                sources[lane.outbox] = index
        return sources[outboxes]

    def _lasting(self, count: int, median_ms: float) -> Any:
        """Mostly near the median, now and then much longer."""
        return 1 + self._dice.lognormal(self._np.log(median_ms), 1.3, count).astype("i8")


def _then(before: Any, kind: int, after_ms: Any) -> Any:
    """The next event of each of these lives: so long after the last was written."""
    row = before.copy()
    row["kind"] = kind
    row["written"] = before["written"] + after_ms
    row["at"] = row["written"]
    row["turn"] += 1
    row["note"] = PLAIN
    return row
