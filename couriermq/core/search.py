"""Which messages somebody looks for: conditions on a message as it lies in its queue."""

import msgspec

from couriermq.core.model import Message, State

Value = str | float | bool


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """All conditions must hold; the default is no condition."""

    states: tuple[State, ...] = (State.DELAYED, State.READY, State.LEASED)
    id: str | None = None
    attributes: tuple[tuple[str, Value], ...] = ()
    group: str | None = None
    attempts_min: int = 0
    contains: str | None = None
    """A text in the body, the id or the value of an attribute; case matters."""
    reason: str | None = None
    source_queue: str | None = None
    """The id of the queue that the message died in."""
    content_type: str | None = None
    start: int | None = None
    end: int | None = None
    """When it came into the queue: from `start` on, before `end`."""
    seqs: frozenset[int] | None = None
    last_seq: int | None = None
    """The newest message that is meant: what is sent later has a higher seq."""

    @property
    def is_plain(self) -> bool:
        """Whether states, the id and one attribute are all there is, which a store finds by itself."""
        return self == Search(states=self.states, id=self.id, attributes=self.attributes[:1])

    def takes(self, message: Message) -> bool:
        return (
            message.state in self.states
            and (self.seqs is None or message.seq in self.seqs)
            and (self.last_seq is None or message.seq <= self.last_seq)
            and (self.id is None or message.id == self.id)
            and (self.start is None or message.entered_at >= self.start)
            and (self.end is None or message.entered_at < self.end)
            and message.attempts >= self.attempts_min
            and (self.group is None or message.group == self.group)
            and (self.content_type is None or message.content_type == self.content_type)
            and all(_has(message, name, value) for name, value in self.attributes)
            and self._takes_death(message)
            and (self.contains is None or _contains(message, self.contains))
        )

    def _takes_death(self, message: Message) -> bool:
        if self.reason is None and self.source_queue is None:
            return True
        death = message.death
        return (
            death is not None
            and (self.reason is None or death.reason == self.reason)
            and (self.source_queue is None or death.source_queue == self.source_queue)
        )


def _has(message: Message, name: str, wanted: Value) -> bool:
    value = message.attributes.get(name)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _contains(message: Message, text: str) -> bool:
    needle = text.encode("utf-8", "surrogatepass")
    return (
        needle in message.body
        or text in message.id
        or any(isinstance(value, str) and text in value for value in message.attributes.values())
    )
