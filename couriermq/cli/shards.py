"""`courier shards …`; only root may."""

import time
from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.client import route
from couriermq.cli.connection import REMOTE, SERVER, Remote, Server
from couriermq.cli.exits import Exit, Failure
from couriermq.cli.options import Flag, QueueName, SecretText, Yes
from couriermq.cli.progress import Progress
from couriermq.cli.screen import Column

app = App(name="shards", help="Divide the store into several databases; needs the root token.", help_epilogue="")

LOOK_EVERY_S = 0.3
OVER = {"done", "failed"}

Json = dict[str, Any]
ShardName = Annotated[str, Parameter(help="The shard's name.", metavar="SHARD")]


@app.command(name="list")
def list_(*, server: Server = SERVER) -> None:
    """List the shards, how many queues each has, and which queues are on the move."""
    document = server.client.get(route("shards"))
    if server.json:
        server.screen.document(document)
        return
    columns = [Column("SHARD"), Column("NUMBER"), Column("WEIGHT"), Column("QUEUES"), Column("STATE", fold=True)]
    rows = [[s["name"], s["number"], s["weight"], s["queue_count"], _state(s)] for s in document["shards"]]
    server.screen.table(columns, rows)
    for move in document["moves"]:
        server.screen.line(_move_words(move))


def _state(shard: Json) -> str:
    return shard["trouble"] or ("draining" if shard["draining"] else "active")


def _move_words(move: Json) -> str:
    words = f"queue {move['queue']}: {move['from_shard']} to {move['to_shard']}, {move['progress']}"
    return f"{words}: {move['trouble']}" if move["trouble"] else words


@app.command
def add(name: ShardName, database: SecretText, /, *, weight: int = 1, server: Server = SERVER) -> None:
    """Make an empty PostgreSQL database a shard of the store.

    Parameters
    ----------
    database
        Its address, as postgresql://…; every node must reach it. - reads it from standard input, @FILE from a file.
    weight
        Its share of new queues, against the weights of the others.
    """
    document = server.client.post(route("shards"), {"name": name, "database": database, "weight": weight})
    server.screen.tell(document, f"added shard {name} with number {document['number']}")


@app.command
def weight(name: ShardName, weight: int, /, *, server: Server = SERVER) -> None:
    """Say how many of the new queues a shard gets, against the others; 0 means none.

    Parameters
    ----------
    weight
        Its share of new queues.
    """
    document = server.client.patch(route("shards", name), {"weight": weight})
    server.screen.tell(document, f"shard {name} has weight {weight}")


@app.command
def drain(name: ShardName, /, *, stop: Flag = False, server: Server = SERVER) -> None:
    """Move every queue away from a shard, one by one, and place no new ones there.

    Parameters
    ----------
    stop
        Use the shard again, and leave the queues that are still there.
    """
    document = server.client.patch(route("shards", name), {"draining": not stop})
    if stop:
        server.screen.tell(document, f"shard {name} is used again")
        return
    count = document["queue_count"]
    with Progress(f"draining {name}", unit="queue", total=count, json=server.json) as progress:
        while document["queue_count"] and document["draining"]:
            time.sleep(LOOK_EVERY_S)
            listed = server.client.get(route("shards"))
            document = next(shard for shard in listed["shards"] if shard["name"] == name)
            progress.reach(count - document["queue_count"])
    server.screen.tell(document, f"shard {name} is empty" if document["draining"] else f"shard {name} is used again")


@app.command
def address(name: ShardName, database: SecretText, /, *, server: Server = SERVER) -> None:
    """Say where a shard's database is now, such as after a failover to another machine.

    Parameters
    ----------
    database
        Its new address, as postgresql://…; the same shard must be there.
    """
    document = server.client.patch(route("shards", name), {"database": database})
    server.screen.tell(document, f"shard {name} is at {document['database']}")


@app.command
def remove(name: ShardName, /, *, forget_journal: Flag = False, yes: Yes = False, server: Server = SERVER) -> None:
    """Remove a shard that is drained and empty; its database is not needed any more.

    Parameters
    ----------
    forget_journal
        Also when its journal has events that are not in the archive: they are lost to the pipeline.
    """
    server.screen.confirm(f"remove shard {name} from the store?", yes=yes)
    path = route("shards", name) + ("?forget_journal=true" if forget_journal else "")
    server.client.delete(path)
    server.screen.tell({"removed": name}, f"removed shard {name}")


@app.command
def move(queue: QueueName, /, *, to: Annotated[str, Parameter(metavar="SHARD")], server: Remote = REMOTE) -> None:
    """Move a queue to another shard while it is used, and wait until it is there.

    Parameters
    ----------
    to
        Where it shall live.
    """
    found = server.client.post(route("shards", to, "moves"), {"tenant": server.tenant, "queue": queue})
    with Progress(f"moving {queue}", unit="message", json=server.json) as progress:
        while found["progress"] not in OVER:
            progress.reach(found["copied_count"], total=found["total_count"] or None, state=found["progress"])
            time.sleep(LOOK_EVERY_S)
            found = _find(server.client.get(route("shards"))["moves"], found)
    if found["progress"] == "failed":
        raise Failure(f"queue {queue} is where it was: {found['trouble']}", Exit.FAILED)
    server.screen.tell(found, f"queue {queue} lives on {to}; callers waited {found['frozen_ms']} ms")


def _find(moves: list[Json], wanted: Json) -> Json:
    for move in moves:
        if (move["tenant"], move["queue"]) == (wanted["tenant"], wanted["queue"]):
            return move
    raise Failure("the server knows nothing of the move any more", Exit.FAILED)
