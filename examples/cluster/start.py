"""One PostgreSQL, three nodes of Courier and nginx before them, on this machine, until Ctrl-C.

    python examples/cluster/start.py [--port 8080] [--nodes 3] [--data ./courier-cluster]

Everything is kept below `--data`: start it again and the messages are still there. The root token is
$COURIER_ROOT_TOKEN, or one that is made and printed at the first start.
"""

import argparse
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

HERE = Path(__file__).parent
PROGRAMS = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/sbin")]
START_SECONDS = 30
STOP_SECONDS = 40


def program(name: str) -> str:
    """Where a program is; Debian keeps PostgreSQL's and nginx out of the path."""
    found = shutil.which(name) or next((str(folder / name) for folder in PROGRAMS if (folder / name).exists()), None)
    return found or sys.exit(f"{name} was not found; `make install-all` installs what is missing")


def is_taken(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Database:
    """A PostgreSQL, reached through a socket. It refuses to run as root, so root lends it to another user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None

    @property
    def url(self) -> str:
        return f"postgresql://courier@/postgres?host={quote(str(self.folder), safe='')}"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        if not self._data.exists():
            self._run("initdb", "-D", str(self._data), "-U", "courier", "-A", "trust", "-E", "UTF8", "--locale=C")
        options = f"-k {self.folder} -c listen_addresses= -c max_connections=100"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(self.folder / "log"), "-o", options, "-w", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-m", "fast", "-w", "stop")

    def _run(self, name: str, *arguments: str) -> None:
        user, group, groups = (None, None, None) if self._user is None else (self._user.pw_uid, self._user.pw_gid, ())
        subprocess.run(
            [program(name), *arguments],
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            user=user,
            group=group,
            extra_groups=groups,
        )


class Node:
    """One Courier. All it has of its own is a folder for its port; all else is in the database and the archive."""

    def __init__(self, folder: Path, *, store: str, archive: Path, token: str) -> None:
        self.folder = folder
        settings = {"DATA": folder, "STORE": store, "ARCHIVE": archive, "PORT": 0, "ROOT_TOKEN": token}
        self._environ = os.environ | {f"COURIER_{key}": str(value) for key, value in settings.items()}

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "port").unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "couriermq.cli", "serve"]
            self.process = subprocess.Popen(command, env=self._environ, stdout=log, stderr=log)
        deadline = time.monotonic() + START_SECONDS
        while not (self.folder / "port").exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"a node did not start; see {self.folder / 'log'}")
            time.sleep(0.05)
        self.port = int((self.folder / "port").read_text())

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(STOP_SECONDS)


class Balancer:
    """nginx, which spreads requests over the nodes and leaves out those that do not answer."""

    def __init__(self, folder: Path, port: int, nodes: Sequence[Node]) -> None:
        self._folder = folder
        self._port = port
        servers = "\n".join(f"        server 127.0.0.1:{node.port} max_fails=1 fail_timeout=2s;" for node in nodes)
        self._config = (HERE / "nginx.conf").read_text().replace("@PORT@", str(port)).replace("@SERVERS@", servers)

    def start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / "nginx.conf"
        config.write_text(self._config)
        command = [program("nginx"), "-p", str(self._folder), "-c", str(config), "-e", "error.log"]
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + START_SECONDS
        while not is_taken(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"nginx did not start; see {self._folder / 'error.log'}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGQUIT)  # finish what is in hand
        self._process.wait(STOP_SECONDS)


def token_of(data: Path) -> str:
    kept = data / "root-token"
    if "COURIER_ROOT_TOKEN" in os.environ:
        return os.environ["COURIER_ROOT_TOKEN"]
    if not kept.exists():
        kept.write_text(secrets.token_hex(32))
        kept.chmod(0o600)
    return kept.read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--data", type=Path, default=Path("courier-cluster"))
    options = parser.parse_args()
    if is_taken(options.port):
        sys.exit(f"port {options.port} is taken by another program; choose one with --port")
    data = options.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    token = token_of(data)
    stopping = threading.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stopping.set())

    started: list[Database | Node | Balancer] = []
    try:
        database = Database(data / "postgresql")
        database.start()
        started.append(database)
        nodes = []
        for number in range(1, options.nodes + 1):
            node = Node(data / f"node{number}", store=database.url, archive=data / "archive", token=token)
            node.start()
            started.append(node)
            nodes.append(node)
            print(f"node {number}: process {node.process.pid}, http://127.0.0.1:{node.port}", flush=True)
        balancer = Balancer(data / "nginx", options.port, nodes)
        balancer.start()
        started.append(balancer)
        print(f"ready: http://127.0.0.1:{options.port}, root token {token}; Ctrl-C stops it all", flush=True)
        stopping.wait()
    finally:
        for one in reversed(started):
            one.stop()


if __name__ == "__main__":
    main()
