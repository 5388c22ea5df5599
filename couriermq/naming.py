"""Ids by which receivers know messages whose own ids may have been used before."""

from couriermq.clock import Clock
from couriermq.core import webhook_ids
from couriermq.core.model import Attribute, Draft

REMEMBERED_COUNT = 100_000
"""How many ids of one millisecond are remembered."""


class WebhookIds:
    """Gives each message that is sent to listeners an id of its own; `core.webhook_ids` says which."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = 0
        self._used: set[str] = set()

    def noted(self, draft: Draft, now: int) -> dict[str, Attribute]:
        """The attributes of a listener's copy."""
        attributes = {name: value for name, value in draft.attributes.items() if name != webhook_ids.ATTRIBUTE}
        if not draft.minted:
            attributes[webhook_ids.ATTRIBUTE] = self._unique(draft, now)
        return attributes

    def _unique(self, draft: Draft, now: int) -> str:
        """Messages that are alike in all, and sent in the same millisecond, are told apart by chance."""
        if now != self._at or len(self._used) >= REMEMBERED_COUNT:
            self._at, self._used = now, set()
        chosen = webhook_ids.derived(draft.id or "", sent_at=now, body=draft.body)
        if chosen in self._used:
            salt = self._clock.random_bytes(16)
            chosen = webhook_ids.derived(draft.id or "", sent_at=now, body=draft.body, salt=salt)
        self._used.add(chosen)
        return chosen
