"""Findings about queues on the wire."""

from urllib.parse import quote

import msgspec

from couriermq.core.diagnosis import Finding as Found
from couriermq.core.diagnosis import Fix as FoundFix
from couriermq.core.diagnosis import Level
from couriermq.core.model import Json, Queue
from couriermq.core.numbers import Numbers

TENANT = "/courier/v1/tenants"


class Fix(msgspec.Struct):
    """A call that helps; `body` is null where it takes none."""

    title: str
    method: str
    path: str
    body: dict[str, Json] | None


class Finding(msgspec.Struct):
    """One reason why messages do not get through, with the figures that it rests on."""

    code: str
    level: Level
    queue: str
    queue_id: str
    sentence: str
    evidence: dict[str, int | float | str]
    fix: Fix | None


class Diagnosis(msgspec.Struct):
    """The worst findings first; none means that nothing is wrong."""

    at: int
    findings: list[Finding]


def write_finding(found: Found, queue: Queue, numbers: Numbers) -> Finding:
    evidence = dict(found.evidence)
    sentence = found.sentence
    seq = evidence.get("seq")
    if isinstance(seq, int):
        shown = numbers.seq(seq)
        evidence["seq"] = shown
        sentence = sentence.replace(f"seq {seq}", f"seq {shown}")
    return Finding(
        code=found.code,
        level=found.level,
        queue=queue.name,
        queue_id=queue.id,
        sentence=sentence,
        evidence=evidence,
        fix=None if found.fix is None else _write_fix(found.fix, queue),
    )


def _write_fix(fix: FoundFix, queue: Queue) -> Fix:
    path = f"{TENANT}/{quote(queue.tenant, safe='')}/queues/{quote(queue.name, safe='')}{quote(fix.path)}"
    return Fix(title=fix.title, method=fix.method, path=path, body=fix.body)
