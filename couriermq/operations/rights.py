"""Whether an operation may go on: the credential that started it may have lost its rights since."""

from couriermq.core.model import Action, Credential, Queue
from couriermq.core.scopes import allows, end_of
from couriermq.operations.model import Where


def lost_right(
    credential: Credential | None, where: Where, queue: Queue, target: Queue | None, *, now: int
) -> str | None:
    """Why the operation must stop; None while the credential could start it anew."""
    if credential is None:
        return "the credential that started it was deleted"
    if (end := end_of(credential, now=now)) is not None:
        return f"the credential that started it {end}"
    needed: list[tuple[Queue, tuple[Action, ...]]] = [(queue, (Action.MANAGE,))]
    if where.contains is not None or where.attributes:
        needed.append((queue, (Action.BROWSE,)))
    if target is not None:
        needed.append((target, (Action.SEND, Action.MANAGE)))
    for one, actions in needed:
        if not allows(credential.scopes, actions, (one.name, one.id)):
            return f"the credential that started it lacks the scope {' or '.join(actions)} on queue {one.name!r}"
    return None
