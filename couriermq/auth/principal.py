"""A caller that has proved who it is."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from couriermq.core import scopes as rules
from couriermq.core.errors import Forbidden
from couriermq.core.model import Action, Credential, Exchange, Queue, Scope

VERBS = {
    Action.SEND: "send to",
    Action.RECEIVE: "receive from",
    Action.BROWSE: "browse",
    Action.MANAGE: "manage",
    Action.STATS: "read the figures of",
    Action.AUDIT: "read the audit events of",
}


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """`tenant` is None for root, who may do everything everywhere."""

    id: str
    tenant: str | None
    scopes: tuple[Scope, ...] = ()
    dialect_scopes: Mapping[str, Sequence[str]] = {}
    """Not empty: only these dialects may be used, and in each of them only these of its own scopes."""
    expires_at: int | None = None
    requests_per_second: float | None = None

    @classmethod
    def of(cls, credential: Credential) -> "Principal":
        return cls(
            id=credential.id,
            tenant=credential.tenant,
            scopes=credential.scopes,
            dialect_scopes=credential.dialect_scopes,
            expires_at=credential.expires_at,
            requests_per_second=credential.requests_per_second,
        )

    @property
    def is_root(self) -> bool:
        return self.tenant is None

    def require_root(self) -> None:
        if not self.is_root:
            raise Forbidden("manage", "tenants; that needs the root credential")

    def require_dialect(self, dialect: str) -> None:
        """The right to use a dialect at all."""
        if self.dialect_scopes and dialect not in self.dialect_scopes:
            raise Forbidden("use", f"this API; it is limited to {', '.join(sorted(self.dialect_scopes))}")

    def require_tenant(self, tenant: str) -> None:
        """Ask this before looking anything up: a stranger must not learn what exists."""
        if self.tenant is not None and self.tenant != tenant:
            raise Forbidden("use", f"tenant {tenant!r}")

    # -- acting -----------------------------------------------------------------------------------------------

    def require_on(self, asked: str, found: Queue | Exchange | None, *actions: Action, verb: str | None = None) -> None:
        """The right to do one of the actions on what the caller asked for by a name or an id, if it was found.

        Without the right the answer is the same whether or not anything has that name.
        """
        if not self.may_on(asked, found, *actions):
            raise Forbidden(verb or " or ".join(VERBS[action] for action in actions), f"{asked[:200]!r}")

    def may_on(self, asked: str, found: Queue | Exchange | None, *actions: Action) -> bool:
        if self.tenant is None:
            return True
        if found is None:
            return rules.allows(self.scopes, actions, (asked,))
        return found.tenant == self.tenant and rules.allows(self.scopes, actions, (found.name, found.id))

    def require(self, action: Action, target: Queue | Exchange) -> None:
        """The right to act on one queue or exchange that the caller knows."""
        if self.tenant is None:
            return
        self.require_tenant(target.tenant)
        if not self.may(action, target):
            raise Forbidden(VERBS[action], f"{target.name!r}")

    def may(self, action: Action, target: Queue | Exchange) -> bool:
        return self.may_on(target.name, target, action)

    def require_all(self, action: Action, tenant: str) -> None:
        """The right to act on the whole tenant: lists, new queues, credentials."""
        self.require_tenant(tenant)
        if not self.may_all(action):
            raise Forbidden(VERBS[action], f"all of tenant {tenant!r}")

    def may_all(self, *actions: Action) -> bool:
        return self.tenant is None or rules.allows(self.scopes, actions, ())

    def require_names(self, queue: Queue, names: Iterable[str]) -> None:
        """The right to give a queue these names or aliases, of which it may have some already.

        A name brings the scopes with it that others have for it, and a refusal because it is taken tells that it is.
        """
        for name in names:
            if name != queue.name and name not in queue.aliases.values() and not self._may_name(name):
                raise Forbidden("give a queue the name", f"{name[:200]!r}; that needs manage on this name")

    def _may_name(self, name: str) -> bool:
        return self.tenant is None or rules.allows(self.scopes, (Action.MANAGE,), (name,))

    def may_somewhere(self, actions: Collection[Action]) -> bool:
        """Whether the caller may do one of the actions on anything."""
        return self.tenant is None or rules.allows_somewhere(self.scopes, actions)

    # -- granting ---------------------------------------------------------------------------------------------

    def require_grant(
        self,
        scopes: Sequence[Scope],
        *,
        dialect_scopes: Mapping[str, Sequence[str]] | None = None,
        expires_at: int | None = None,
        requests_per_second: float | None = None,
    ) -> None:
        """The right to give somebody a credential like this, or its secret: nobody grants more than they have."""
        if self.tenant is None:
            return
        if excess := rules.first_excess(self.scopes, scopes):
            action, queue = excess
            raise Forbidden("grant", f"{action} on {queue!r}, which it does not have itself")
        if not rules.may_grant_dialects(self.dialect_scopes, dialect_scopes or {}):
            raise Forbidden("grant", "scopes of a dialect that it does not have itself")
        if not rules.may_grant_until(self.expires_at, expires_at):
            raise Forbidden("grant", f"anything that ends later than itself; give expires_at up to {self.expires_at}")
        if not rules.may_grant_rate(self.requests_per_second, requests_per_second):
            rate = self.requests_per_second
            raise Forbidden("grant", f"more requests than it has itself; give requests_per_second up to {rate:g}")

    def require_grant_of(self, credential: Credential) -> None:
        """The same for a credential as it stands, with what a dialect alone lets it do."""
        self.require_grant(
            [*credential.scopes, *_needs_of(credential)],
            dialect_scopes=credential.dialect_scopes,
            expires_at=credential.expires_at,
            requests_per_second=credential.requests_per_second,
        )


def _needs_of(credential: Credential) -> list[Scope]:
    """The scopes that a dialect has noted as `needs`: they stand for rights that the credential has only there."""
    noted = [facts.get("needs", ()) for facts in credential.dialect_facts.values() if isinstance(facts, dict)]
    return [scope for needs in noted for scope in msgspec.convert(needs, tuple[Scope, ...])]
