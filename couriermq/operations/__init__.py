"""Operations on all messages that match: in the background, with progress, a rate limit and an end."""

from couriermq.operations.model import Operation, Preview, State, Verb, Where
from couriermq.operations.runner import Operations

__all__ = ["Operation", "Operations", "Preview", "State", "Verb", "Where"]
