"""`courier workers …`."""

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.options import Flag, SecretText, Yes
from couriermq.cli.screen import Column
from couriermq.workers import BRIDGE

app = App(name="workers", help="Run queue() handlers of Workers on this machine.", help_epilogue="")

Json = dict[str, Any]
Script = Annotated[str, Parameter(help="The script's name, as consumers have it.", metavar="SCRIPT")]


@app.command(name="list")
def list_(*, remote: Remote = REMOTE) -> None:
    """List the scripts that are attached to a bridge, and the queues that each serves."""
    workers = remote.every(remote.path("workers"), "workers")
    if remote.json:
        remote.screen.document(workers)
    elif workers:
        columns = [
            Column("SCRIPT", fold=True),
            Column("URL", cut=True),
            Column("QUEUES", fold=True),
            Column("LAST ERROR"),
        ]
        remote.screen.table(columns, [_row(worker) for worker in workers])
    else:
        remote.screen.note("no Workers yet; attach one with `courier workers attach SCRIPT URL`")


def _row(worker: Json) -> list[str]:
    consumers = worker["consumers"]
    failing = [one["health"]["last_failure_error"] for one in consumers if one["health"]["failure_run"]]
    return [
        worker["script"],
        worker["url"],
        ", ".join(one["queue"] for one in consumers),
        (failing[0] or "") if failing else "",
    ]


@app.command
def attach(
    script: Script,
    url: Annotated[str, Parameter(help="Where the bridge listens.", metavar="URL")],
    /,
    *,
    secret: Annotated[SecretText | None, Parameter(metavar="whsec_…|-|@FILE")] = None,
    remote: Remote = REMOTE,
) -> None:
    """Serve the consumers of a script at the URL of its bridge, from now on.

    Parameters
    ----------
    secret
        Sign batches with this secret instead of a new one; - reads it from standard input, @FILE from a file.
    """
    order = {"url": url} | ({"secret": secret} if secret else {})
    document = remote.client.put(remote.path("workers", script), order)
    if remote.json:
        remote.screen.document(document)
        return
    queues = ", ".join(one["queue"] for one in document["consumers"]) or "no queue yet"
    remote.screen.line(f"attached {script} to {document['url']}, which serves {queues}")
    if "secret" in document:
        remote.screen.line(f"COURIER_SECRET for the bridge: {document['secret']}", style="bold")


@app.command
def detach(script: Script, /, *, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Serve the consumers of a script no longer; their messages wait."""
    remote.screen.confirm(f"detach {script}?", yes=yes)
    remote.client.delete(remote.path("workers", script))
    remote.screen.tell({"script": script}, f"detached {script}")


@app.command
def bridge(
    file: Annotated[Path | None, Parameter(help="Where to write it; without it, print it.", metavar="FILE")] = None,
    /,
    *,
    force: Flag = False,
) -> None:
    """Print the bridge module, or write it to a file: it runs beside the Worker, in workerd or `wrangler dev`.

    Parameters
    ----------
    force
        Replace a file that is there.
    """
    if file is None:
        sys.stdout.write(BRIDGE.read_text())
        return
    if file.exists() and not force:
        raise Failure(f"{file} is there already; --force replaces it", Exit.FAILED)
    file.write_bytes(BRIDGE.read_bytes())
    sys.stdout.write(f"wrote {file}\n")
