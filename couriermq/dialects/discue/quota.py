"""What a key's limit leaves it, as every answer tells it."""

from couriermq.core.model import MINUTE, SECOND
from couriermq.web.call import Call, Header


def quota_headers(call: Call) -> list[Header]:
    """The three headers; none for a caller without a limit, or one that nobody knows."""
    principal = call.principal
    if not principal.tenant:
        return []
    allowance = call.services.auth.allowance(principal)
    if allowance is None:
        return []
    return [
        (b"x-ratelimit-limit", b"%d" % (allowance.requests_per_second * MINUTE / SECOND)),
        (b"x-ratelimit-remaining", b"%d" % allowance.remaining_count),
        (b"x-ratelimit-reset", b"%d" % -(-allowance.full_at // SECOND)),
    ]
