"""`courier audit`."""

from typing import Annotated, Any

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.quantities import show_instant

Json = dict[str, Any]


def audit(
    *,
    kind: list[str] | None = None,
    from_: Annotated[str | None, Parameter(name="--from", metavar="OFFSET")] = None,
    remote: Remote = REMOTE,
) -> None:
    """Print who signed in, who was denied, who read secrets and who changed what, one event a line.

    Parameters
    ----------
    kind
        Only events of this kind, such as denied or credential_changed; may be given again.
    from_
        Start at this offset of the journal, or at this position with a tenant's credential. [default: the oldest]
    """
    start = from_
    while True:
        page = remote.client.get(remote.path("audit"), {"kind": kind or None, "from": start})
        for event in page["events"]:
            if remote.json:
                remote.screen.record(event)
            else:
                remote.screen.line(_line(event))
        if page["at_end"]:
            return
        start = page["next"]


def _line(event: Json) -> str:
    detail = event["detail"] or {}
    words = [f"{event['offset']:>8}", show_instant(event["at"]), f"{event['kind']:<18}", event["principal"] or ""]
    words += [f"from {detail['address']}"] if detail.get("address") else []
    words += [f"status {detail['status']}"] if "status" in detail else []
    words += [f"{detail['count']} times"] if detail.get("count", 1) > 1 else []
    words += [str(thing)] if (thing := event["queue"] or detail.get("name") or detail.get("listener")) else []
    return "  ".join(words)
