"""A caller that has proved who it is."""

import msgspec

from couriermq.core.errors import Forbidden
from couriermq.core.model import Action, Exchange, Queue, Scope

VERBS = {
    Action.SEND: "send to",
    Action.RECEIVE: "receive from",
    Action.BROWSE: "browse",
    Action.MANAGE: "manage",
    Action.STATS: "read the figures of",
}


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """`tenant` is None for root, who may do everything everywhere."""

    id: str
    tenant: str | None
    scopes: tuple[Scope, ...] = ()

    @property
    def is_root(self) -> bool:
        return self.tenant is None

    def require_root(self) -> None:
        if not self.is_root:
            raise Forbidden("manage", "tenants; that needs the root credential")

    def require_tenant(self, tenant: str) -> None:
        """Ask this before looking anything up: a stranger must not learn what exists."""
        if self.tenant is not None and self.tenant != tenant:
            raise Forbidden("use", f"tenant {tenant!r}")

    def require(self, action: Action, target: Queue | Exchange) -> None:
        """The right to act on one queue or exchange."""
        if self.tenant is None:
            return
        self.require_tenant(target.tenant)
        for scope in self.scopes:
            if scope.action is action and (
                "*" in scope.queues or target.name in scope.queues or target.id in scope.queues
            ):
                return
        raise Forbidden(VERBS[action], f"{target.name!r}")

    def require_all(self, action: Action, tenant: str) -> None:
        """The right to act on the whole tenant: lists, new queues, credentials."""
        if self.tenant is None:
            return
        self.require_tenant(tenant)
        if not any(scope.action is action and "*" in scope.queues for scope in self.scopes):
            raise Forbidden(VERBS[action], f"all of tenant {tenant!r}")

    def may(self, action: Action, target: Queue | Exchange) -> bool:
        try:
            self.require(action, target)
        except Forbidden:
            return False
        return True
