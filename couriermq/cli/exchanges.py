"""`courier exchanges …`."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from couriermq.cli.connection import REMOTE, Remote
from couriermq.cli.exits import Exit
from couriermq.cli.options import Yes
from couriermq.cli.quantities import show_count, show_instant
from couriermq.cli.rules import read_rule, show_rule
from couriermq.cli.screen import Column
from couriermq.cli.sending import ONE, PLAIN, Body, Draft, Many, read_body, send_many

app = App(name="exchanges", help="Copy messages to several queues by rules.", help_epilogue="")

Json = dict[str, Any]
ExchangeName = Annotated[str, Parameter(help="The exchange's name or id.", metavar="EXCHANGE")]
BoundQueue = Annotated[str, Parameter(help="The queue's name or id.", metavar="QUEUE")]
Rules = Annotated[
    list[str] | None,
    Parameter(
        name="--rule",
        alias="-r",
        metavar="RULE",
        help="A condition such as 'region eq eu', 'price range 10,20', 'priority >= 5', 'urgent exists'; "
        "may be given again, and all must hold.",
    ),
]


@app.command(name="list")
def list_(*, prefix: str | None = None, remote: Remote = REMOTE) -> None:
    """List the tenant's exchanges.

    Parameters
    ----------
    prefix
        Only exchanges whose names start with this.
    """
    exchanges = remote.every(remote.path("exchanges"), "exchanges", {"prefix": prefix})
    if remote.json:
        remote.screen.document(exchanges)
    elif exchanges:
        rows = [[exchange["name"], exchange["id"], show_instant(exchange["created_at"])] for exchange in exchanges]
        remote.screen.table([Column("NAME", fold=True), Column("ID"), Column("CREATED")], rows)
    else:
        remote.screen.note("no exchanges yet; make one with `courier exchanges create NAME`")


@app.command
def create(exchange: Annotated[str, Parameter(help="The new exchange's name.")], /, *, remote: Remote = REMOTE) -> None:
    """Create an exchange; bind queues to it to make it useful."""
    document = remote.client.post(remote.path("exchanges"), {"name": exchange})
    remote.screen.tell(document, f"created exchange {exchange}")


@app.command
def show(exchange: ExchangeName, /, *, remote: Remote = REMOTE) -> None:
    """Show an exchange and the queues bound to it."""
    document = remote.client.get(remote.exchange(exchange))
    if remote.json:
        remote.screen.document(document)
        return
    bindings = remote.client.get(remote.exchange(exchange, "bindings"))["bindings"]
    facts = [("id", document["id"]), ("tenant", document["tenant"]), ("created", show_instant(document["created_at"]))]
    facts.extend((f"to {binding['queue']}", _rule_words(binding)) for binding in bindings)
    remote.screen.sheet(f"exchange {document['name']}", facts)


def _rule_words(binding: Json) -> str:
    return " and ".join(map(show_rule, binding["rules"])) or "every message"


@app.command
def delete(exchange: ExchangeName, /, *, yes: Yes = False, remote: Remote = REMOTE) -> None:
    """Delete an exchange and its bindings; the queues stay."""
    remote.screen.confirm(f"delete exchange {exchange} and its bindings?", yes=yes)
    remote.client.delete(remote.exchange(exchange))
    remote.screen.tell({"deleted": exchange}, f"deleted exchange {exchange}")


@app.command
def bind(exchange: ExchangeName, queue: BoundQueue, /, *, rule: Rules = None, remote: Remote = REMOTE) -> None:
    """Copy an exchange's messages to a queue: all of them, or those for which every rule holds.

    A binding that is there already gets these rules instead of its own.
    """
    order = {"rules": [read_rule(text) for text in rule or ()]}
    document = remote.client.put(remote.exchange(exchange, "bindings", queue), order)
    remote.screen.tell(document, f"bound {exchange} to {queue}: {_rule_words(order)}")


@app.command
def unbind(exchange: ExchangeName, queue: BoundQueue, /, *, remote: Remote = REMOTE) -> None:
    """Stop copying to a queue."""
    remote.client.delete(remote.exchange(exchange, "bindings", queue))
    remote.screen.tell({"unbound": queue}, f"unbound {queue} from {exchange}")


@app.command
def bindings(exchange: ExchangeName, /, *, remote: Remote = REMOTE) -> None:
    """List the queues that an exchange copies to, and the rules."""
    found: list[Json] = remote.client.get(remote.exchange(exchange, "bindings"))["bindings"]
    if remote.json:
        remote.screen.document(found)
    elif found:
        rows = [[binding["queue"], _rule_words(binding)] for binding in found]
        remote.screen.table([Column("QUEUE", fold=True), Column("RULES", fold=True)], rows)
    else:
        remote.screen.note(f"no queue is bound; bind one with `courier exchanges bind {exchange} QUEUE`")


@app.command
def publish(
    exchange: ExchangeName, body: Body = None, /, *, draft: Draft = PLAIN, many: Many = ONE, remote: Remote = REMOTE
) -> int:
    """Send a message, or many, to every queue whose rules let it through."""
    path = remote.exchange(exchange, "messages")
    many.check(draft)
    if many != ONE:
        return send_many(remote, lambda document: remote.client.post(path, document), body, draft, many)
    published = remote.client.post(path, draft.document(read_body(body)))
    remote.screen.tell(published, f"published {published['id']} to {show_count(published['queue_count'], 'queue')}")
    return Exit.OK
