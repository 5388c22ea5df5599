"""The process that follows a stream begins at once: it is forked from one that has imported what it needs.

Spark starts a Python for every stream, and waits until that has imported PySpark and pyarrow. On one machine Spark is
given a command in the place of Python instead. For a stream's process this command asks the starter, a process that
the driver has started beside Spark, to fork (`ask`, `serve`); for everything else, and where there is nobody to ask, it
is Python.
"""

import shlex
import socket
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from couriermq.clock import fresh_key

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""The module that Spark runs for each stream of a Python data source."""
STARTER = "STREAM_STARTER"
"""The variable that tells where the starter listens."""
COMMAND = """\
#!/bin/sh
# Python, as Spark starts it. A stream's process is forked by one that has begun before.
case "$2" in
{runner}) exec {python} -IS {ask} "$@" ;;
esac
exec {python} "$@"
"""


class Starter(NamedTuple):
    """A starter that runs; it ends when nobody holds its standard input any more, which is when this process ends."""

    process: "subprocess.Popen[bytes]"
    name: str
    """Of its socket, which is in no folder and so needs nobody to remove it."""


def variables(folder: Path) -> dict[str, str]:
    """What a JVM must know to have its streams' processes forked; the command is put into the folder.

    Nothing on systems where forking a process with libraries such as Arrow's in it is not safe.
    """
    if sys.platform != "linux":
        return {}
    try:
        return {"PYSPARK_DRIVER_PYTHON": str(_command(folder)), STARTER: _starter().name}
    except OSError:  # no room for a file or a process: streams start without, only later
        return {}


def _command(folder: Path) -> Path:
    ask = Path(__file__).with_name("ask.py")
    text = COMMAND.format(runner=RUNNER, python=shlex.quote(sys.executable), ask=shlex.quote(str(ask)))
    command = folder / "python"
    if not command.exists() or command.read_text() != text:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(command)  # another process may be about to start it
    return command


@cache
def _starter() -> Starter:
    """One for all sessions of this process, which share a JVM as well."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        name = f"courier-starter-{fresh_key().hex()}"  # one that nobody has again when this one is gone
        listener.bind("\0" + name)
        listener.listen()
        command = [sys.executable, "-u", "-m", f"{__name__}.serve", str(listener.fileno())]
        process = subprocess.Popen(  # noqa: S603 - this Python, and a number
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listener.fileno()]
        )
    return Starter(process, name)
