"""`courier why`: what keeps messages from getting through."""

import json
from typing import Annotated, Any

from cyclopts import Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit

Json = dict[str, Any]
STYLES = {"critical": "bold red", "warning": "yellow", "info": "dim"}


def why(
    queue: Annotated[str | None, Parameter(help="The queue's name or id; none means all.", metavar="QUEUE")] = None,
    /,
    *,
    remote: Remote = REMOTE,
) -> int:
    """Say why a queue is stuck, or which queues are, and what helps; exits with 1 where something is critical.

    Looking leases nothing.
    """
    path = remote.path("diagnosis") if queue is None else remote.queue(queue, "diagnosis")
    found = remote.client.get(path)
    if remote.json:
        remote.screen.document(found)
    else:
        _print(remote, found["findings"], whole=queue is None)
    return Exit.FAILED if any(one["level"] == "critical" for one in found["findings"]) else Exit.OK


def _print(remote: Remote, findings: list[Json], *, whole: bool) -> None:
    if not findings:
        remote.screen.note("nothing keeps messages from getting through")
    for one in findings:
        place = f"{one['queue']}: " if whole else ""
        remote.screen.marked(f"{one['level']:8}  ", STYLES[one["level"]], place + one["sentence"])
        if one["fix"] is not None:
            fix = one["fix"]
            body = f" {json.dumps(fix['body'])}" if fix["body"] is not None else ""
            remote.screen.line(f"{'':8}  {fix['title']}: {fix['method']} {fix['path']}{body}")
