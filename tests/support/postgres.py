"""A PostgreSQL of the tests' own: made in a temporary folder, reached through a socket in it, gone at the end."""

import atexit
import contextlib
import functools
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import psycopg

from couriermq.storage.postgres import care

FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
USERS = ("postgres", "nobody")
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "1GB",
    "autovacuum_naptime": "5s",
}
HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For tests that do not end in a crash of the machine."""


def program(name: str) -> str:
    """Where a program of PostgreSQL is; Debian keeps them out of the path."""
    found = shutil.which(name) or next((str(folder / name) for folder in FOLDERS if (folder / name).exists()), None)
    assert found, f"{name} was not found; `make install-all` installs PostgreSQL"
    return found


class Cluster:
    """One server with its data. PostgreSQL refuses to run as root, so root lends it to an unprivileged user."""

    def __init__(self, *, parent: Path | None = None, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="courier-pg-", dir=parent))
        self.data = self.folder / "data"
        self._schemas: dict[Path, str] = {}
        self._spare: list[str] = []
        self._names = itertools.count()
        self._user = _unprivileged_user()
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
            self.folder.chmod(0o755)
        self._create(settings)
        self.start()

    def _create(self, settings: dict[str, str]) -> None:
        self._run([program("initdb"), "-D", str(self.data), "-U", "courier", "-A", "trust", "-E", "UTF8", "--no-sync",
                   "--locale=C"])  # fmt: skip
        lines = [f"{name} = '{value}'" for name, value in {**SETTINGS, **settings}.items()]
        config = self.data / "postgresql.auto.conf"
        config.write_text("\n".join([*lines, f"unix_socket_directories = '{self.folder}'", ""]))

    def start(self) -> None:
        self._run([program("pg_ctl"), "-D", str(self.data), "-l", str(self.folder / "log"), "-w", "start"])

    def stop(self, mode: str = "fast") -> None:
        self._run([program("pg_ctl"), "-D", str(self.data), "-m", mode, "-w", "stop"])

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, schema: str | None = None) -> str:
        """Where a store may live: a schema of its own, or the database's usual one."""
        url = f"postgresql://courier@/postgres?host={quote(str(self.folder), safe='')}"
        return url if schema is None else f"{url}&options={quote(f'-c search_path={schema}', safe='')}"

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def configure(self, **settings: str) -> None:
        """Change settings that a running server can change."""
        for name, value in settings.items():
            self.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        self.execute("SELECT pg_reload_conf()")

    def store_url(self, directory: Path) -> str:
        """The same store for the same directory: an emptied one where there is one, because making one takes longer."""
        schema = self._schemas.get(directory)
        if schema is None:
            schema = self._schemas[directory] = self._spare.pop() if self._spare else f"s{next(self._names)}"
            self.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        return self.url(schema)

    def change(self, directory: Path, sql: str) -> None:
        """Meddle with the directory's store."""
        self.execute(f"SET search_path = {self._schemas[directory]}; {sql}")

    def wipe(self, directory: Path) -> None:
        """Remove all that is in the directory's store."""
        deletes = "".join(f"DELETE FROM {table};" for table in care.TABLES)
        restarts = "".join(f"ALTER SEQUENCE {sequence} RESTART;" for sequence in care.SEQUENCES)
        self.change(directory, f"{deletes} {restarts}")

    def empty(self, directory: Path) -> None:
        """Nobody needs the directory's store any more, if it has one."""
        if directory in self._schemas:
            self.wipe(directory)
            self._spare.append(self._schemas.pop(directory))

    def _run(self, command: Sequence[str]) -> None:
        user, group, groups = (None, None, None) if self._user is None else (self._user.pw_uid, self._user.pw_gid, ())
        subprocess.run(
            command,
            check=True,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            user=user,
            group=group,
            extra_groups=groups,
        )


def _unprivileged_user() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in USERS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise AssertionError("there is no unprivileged user to run PostgreSQL as")


@functools.cache
def shared_cluster() -> Cluster:
    """One server for the whole run, started when first needed."""
    cluster = Cluster(parent=None, **HASTY)
    atexit.register(cluster.remove)
    return cluster
