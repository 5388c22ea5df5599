"""`courier serve`."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from couriermq.cli.data import Config, Data, read_settings
from couriermq.cli.exits import Exit
from couriermq.cli.options import SecretText, read_pairs

LISTEN = Group("Listen", sort_key=10)
LOGS = Group("Logs", sort_key=75)


def serve(
    *,
    host: Annotated[str | None, Parameter(group=LISTEN)] = None,
    port: Annotated[int | None, Parameter(group=LISTEN)] = None,
    tls_cert: Annotated[Path | None, Parameter(group=LISTEN, metavar="FILE")] = None,
    tls_key: Annotated[Path | None, Parameter(group=LISTEN, metavar="FILE")] = None,
    data: Data = None,
    store: Annotated[SecretText | None, Parameter(metavar="URL|@FILE")] = None,
    accept_loss: Annotated[bool | None, Parameter(negative="")] = None,
    config: Config = None,
    log_level: Annotated[Literal["debug", "info", "warning", "error"] | None, Parameter(group=LOGS)] = None,
    log_format: Annotated[Literal["auto", "human", "json"] | None, Parameter(group=LOGS)] = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", metavar="KEY=VALUE")] = None,
) -> int:
    """Run the server until it is told to stop (Ctrl-C or SIGTERM).

    Parameters
    ----------
    host
        The address to listen on. [default: 127.0.0.1]
    port
        The port to listen on; 0 takes any free one. [default: 8080]
    tls_cert
        Serve https with this certificate (PEM).
    tls_key
        The certificate's private key (PEM).
    store
        Where messages are kept: sqlite: or postgresql://user@host/database; @FILE reads it from a file.
        [default: sqlite:]
    accept_loss
        Start although accepted commits are missing in the embedded store, and go on with what is left.
    log_level
        How much to log. [default: info]
    log_format
        Text for people, JSON for programs; auto asks the terminal. [default: auto]
    set_
        Any other setting, such as journal_age_ms=86400000; may be given again.
    """
    flags: dict[str, object] = {
        **read_pairs(set_, "a setting"),
        "host": host, "port": port, "tls_cert": tls_cert, "tls_key": tls_key, "data": data, "store": store,
        "accept_loss": accept_loss, "log_level": log_level, "log_format": log_format,
    }  # fmt: skip
    settings = read_settings(flags, config)
    from couriermq.server import run  # noqa: PLC0415 - the server is heavy, and settings are refused without it

    code = run(settings)
    return code if code in (Exit.OK, Exit.USAGE, Exit.DISK_FAILED) else Exit.FAILED  # 3 and 4 mean other things here
