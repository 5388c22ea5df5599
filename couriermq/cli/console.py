"""`courier console`: the web console in a browser that is signed in."""

import webbrowser
from typing import Annotated

from cyclopts import Parameter

from couriermq.cli.client import route
from couriermq.cli.connection import SERVER, Server
from couriermq.cli.options import Flag


def console(
    *,
    print_url: Annotated[Flag, Parameter(name="--print")] = False,
    server: Server = SERVER,
) -> None:
    """Open the web console in a browser, signed in as this command's credential.

    The address holds a ticket that signs in once, within a minute.

    Parameters
    ----------
    print_url
        Print the address and open nothing.
    """
    made = server.client.post(route("console", "tickets"))
    address = server.client.url.rstrip("/") + made["path"]
    if server.json:
        server.screen.document({"url": address, "expires_at": made["expires_at"]})
    elif print_url or not webbrowser.open(address):
        server.screen.line(address)
        server.screen.note("open this address within a minute; it signs in once")
