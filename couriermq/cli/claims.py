"""`courier claims …`."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.options import Yes
from couriermq.cli.quantities import show_age, show_count, show_size
from couriermq.cli.screen import Column
from couriermq.clock import SystemClock

app = App(name="claims", help="See what jobs hold of queues, and free it.", help_epilogue="")

Json = dict[str, Any]
QueueName = Annotated[str, Parameter(help="The queue's name or id.", metavar="QUEUE")]
JobName = Annotated[str, Parameter(help="The job's name.", metavar="JOB")]


@app.command(name="list")
def list_(queue: QueueName | None = None, /, *, remote: Remote = REMOTE) -> None:
    """List the claims of a queue's jobs, or those of all queues."""
    names = [queue] if queue else [each["name"] for each in remote.every(remote.path("queues"), "queues")]
    claims = [claim for name in names for claim in _claims_of(remote, name)]
    if remote.json:
        remote.screen.document(claims)
    elif claims:
        columns = ["QUEUE", "JOB", "EPOCH", "NUMBER", "MESSAGES", "SIZE", "AGE"]
        remote.screen.table([Column(name, fold=name == "QUEUE") for name in columns], [_row(each) for each in claims])
    else:
        remote.screen.note("no job holds anything")


def _claims_of(remote: Remote, queue: str) -> list[Json]:
    now = SystemClock().now()
    return [
        {
            "queue": queue,
            "job": job["name"],
            "epoch": job["epoch"],
            **claim,
            "age_ms": max(0, now - claim["claimed_at"]),
        }
        for job in remote.client.get(remote.queue(queue, "jobs"))["jobs"]
        for claim in job["claims"]
    ]


def _row(claim: Json) -> list[str]:
    numbers = [str(claim["epoch"]), str(claim["number"]), f"{claim['count']:,}"]
    return [claim["queue"], claim["job"], *numbers, show_size(claim["byte_count"]), show_age(claim["age_ms"])]


@app.command
def free(queue: QueueName, job: JobName, /, *, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Give back what a job holds that will not come back, and shut the job out in case it does.

    The messages are released, as after a failed attempt: what the job had done with them it may have done.
    """
    remote.screen.confirm(f"free all that job {job} holds of {queue}?", yes=yes)
    document = remote.client.post(remote.queue(queue, "jobs", job, "free"))
    remote.screen.tell(document, f"freed {show_count(document['count'], 'message')}")
