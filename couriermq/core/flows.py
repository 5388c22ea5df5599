"""How much has happened where, without what it happened to: what rates are made from."""

from collections.abc import Iterable, Mapping

from couriermq.core.chronicle import Run
from couriermq.core.events import TRANSFER_KINDS

Flow = tuple[int, str, str | None, str | None, str | None]
"""The second, the kind of event, the queue's id, the principal, and the id of the queue that messages went to."""
Flows = Mapping[Flow, int]
"""How many events of each."""


def flow_of(run: Run) -> Flow:
    target = run.detail.get("target_id") if run.kind in TRANSFER_KINDS and run.detail else None
    return run.ats[-1] // 1_000, run.kind, run.queue_id, run.principal, target


def flows_of(runs: Iterable[Run]) -> dict[Flow, int]:
    flows: dict[Flow, int] = {}
    for run in runs:
        if run.ats:
            flow = flow_of(run)
            flows[flow] = flows.get(flow, 0) + len(run)
    return flows
