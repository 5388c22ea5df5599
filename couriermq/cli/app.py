"""The `courier` command: what it can do, and how every way of ending becomes an exit code."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter

from couriermq import __version__
from couriermq.cli.exits import Exit, Failure

PRIVATE = 0o077
"""The umask of commands that read no settings."""

ABOUT = "Courier: a durable message queue, its server and its tools."

EPILOGUE = """\
First steps:
  courier serve                  start a server in this folder
  export COURIER_TOKEN=...       the root token that its first start prints
  courier queues create orders   make a queue
  courier send orders "hello"    put a message into it
  courier receive orders --ack   take it out

Environment:
  COURIER_URL     the server's address (http://127.0.0.1:8080)
  COURIER_TOKEN   the root token or a credential's secret; COURIER_TOKEN_FILE names a file that holds it
  COURIER_TENANT  whose queues (default)
  COURIER_DATA    where the server's data is (courier-data)

Exit codes:
  0    done
  1    failed or refused, or something was found wrong
  2    wrong usage
  3    not found
  4    the credential is missing, unknown or not allowed to
  5    the server cannot be reached, or cannot do it now
  74   the server has ended because the disk did not take a write
  130  interrupted"""

SERVE = """\
Run the server until it is told to stop (Ctrl-C or SIGTERM).

Settings come from flags, then COURIER_* variables, then the file.
The root token is COURIER_ROOT_TOKEN, or stands in the file that COURIER_ROOT_TOKEN_FILE names; unset, the first
start makes one and prints it."""

DOCTOR = """\
Look for what is wrong with the data and, where its address is known, the server.

The exit code is 1 when something is wrong; mere advice leaves it at 0."""

MESSAGES = Group("Messages", sort_key=1)
MANAGE = Group("Manage", sort_key=2)
OPERATE = Group("Operate", sort_key=3)
ABOUT_GROUP = Group("About", sort_key=4)

COMMANDS: tuple[tuple[Group, str, str, str], ...] = (
    (MESSAGES, "send", "sending:send", "Send one message, or many."),
    (MESSAGES, "receive", "receiving:receive", "Lease messages, show them, and ack them if you like."),
    (MESSAGES, "ack", "receiving:ack", "Say that leased messages are done."),
    (MESSAGES, "release", "receiving:release", "Give leased messages back as failed attempts."),
    (MESSAGES, "extend", "receiving:extend", "Hold leased messages for longer."),
    (MESSAGES, "browse", "browsing:browse", "Look at messages without leasing them."),
    (MESSAGES, "cancel", "browsing:cancel", "Take back a message that nobody has received."),
    (MESSAGES, "trace", "tracing:trace", "Print everything that happened to one message."),
    (MESSAGES, "tail", "tail:tail", "Watch a queue live."),
    (MESSAGES, "why", "why:why", "Find out why a queue is stuck."),
    (MANAGE, "queues", "queues:app", "Create, look at, change, empty and delete queues."),
    (MANAGE, "exchanges", "exchanges:app", "Copy messages to several queues by rules."),
    (MANAGE, "listeners", "listeners:app", "Have messages delivered to URLs, and see how that goes."),
    (MANAGE, "workers", "workers:app", "Run queue() handlers of Workers on this machine."),
    (MANAGE, "claims", "claims:app", "See what jobs hold of queues, and free it."),
    (MANAGE, "operations", "operations:app", "Do something with all messages of a queue that match."),
    (MANAGE, "tenants", "tenants:app", "Keep owners of queues apart."),
    (MANAGE, "credentials", "credentials:app", "Let programs in, each with its own rights."),
    (OPERATE, "serve", "serving:serve", SERVE),
    (OPERATE, "console", "console:console", "Open the web console in a browser, signed in."),
    (OPERATE, "journal", "journal:journal", "Print what has happened, in order."),
    (OPERATE, "audit", "auditing:audit", "Print who signed in, was denied, read secrets or changed something."),
    (OPERATE, "doctor", "doctor:doctor", DOCTOR),
    (OPERATE, "backup", "copies:backup", "Copy the data while the server goes on working."),
    (OPERATE, "restore", "copies:restore", "Put a backup in place of an empty data directory."),
    (OPERATE, "store", "store:app", "See which store this is, and say that it is a restored copy."),
    (OPERATE, "secrets", "secrets:app", "Encrypt listeners' secrets at rest, and change the key."),
    (OPERATE, "migrate", "migrating:migrate", "Copy a store to another engine while it is used, and back."),
    (
        OPERATE,
        "shards",
        "shards:app",
        "Divide a store on PostgreSQL into several databases, and move queues between them.",
    ),
    (OPERATE, "pipeline", "pipeline:app", "Turn the journal into tables for data people, with Spark."),
    (OPERATE, "compact", "lakes:compact", "Make few large files of the lake's many small ones."),
    (OPERATE, "simulate", "simulating:simulate", "Write a made-up history to try the pipeline on."),
    (OPERATE, "replay", "replaying:replay", "Send messages of the past again, found by a condition on a table."),
    (OPERATE, "erase", "erasing:erase", "Remove messages from queues, archive and tables, with a receipt."),
    (OPERATE, "report", "reporting:report", "Draw one page of HTML from the lake's tables."),
    (OPERATE, "export", "exporting:export", "Write queues and their messages into a folder of Parquet."),
    (OPERATE, "import", "importing:import_", "Make the queues of an export, and send its messages into them."),
    (ABOUT_GROUP, "version", "about:version", "Print the versions of Courier and of what it stands on."),
)


def build() -> App:
    """The whole command; modules of single commands are imported only when one of them runs."""
    app = App(
        name="courier",
        help=ABOUT,
        help_format="plaintext",
        help_epilogue=EPILOGUE,
        version=__version__,
        default_parameter=Parameter(negative=()),
        print_error=False,
        exit_on_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )
    for flag in ("--help", "--version"):
        app[flag].group = ABOUT_GROUP
    for order, (group, name, place, summary) in enumerate(COMMANDS):
        _add(app, place, name=name, help=summary, group=group, sort_key=order)
    return app


def _add(app: App, place: str, **entry: Any) -> None:
    """Commands of their own have no epilogue; groups of commands say so where they are made."""
    extra = {} if place.endswith(":app") else {"help_epilogue": ""}
    app.command(f"couriermq.cli.{place}", **entry, **extra)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns its exit code. Files that it writes belong to its user alone."""
    umask = os.umask(PRIVATE)
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return code
    except CycloptsError as error:
        _complain(f"{error}\nSee `{' '.join(('courier', *(error.command_chain or ())))} --help`.")
        return Exit.USAGE
    except Failure as failure:
        _complain(str(failure))
        return failure.code
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return Exit.PIPE_CLOSED
    except OSError as error:
        _complain(f"{error.strerror or error}" + (f": {error.filename}" if error.filename else ""))
        return Exit.FAILED
    finally:
        os.umask(umask)


def _run(arguments: Sequence[str]) -> int:
    _prepare_streams()
    result: Any = build()(arguments)
    return result if isinstance(result, int) else Exit.OK


def _prepare_streams() -> None:
    """A terminal without UTF-8 still gets its answer; a stream that was closed is an empty one."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 - open to the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _complain(sentence: str) -> None:
    from couriermq.cli.screen import harmless  # noqa: PLC0415 - only who fails needs it

    sys.stderr.write(f"courier: {harmless(sentence)}\n")


def _drop_output() -> None:
    """Let Python close standard output at its exit without another complaint about the reader who left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
