"""A Spark session as the pipeline wants it: quiet, in UTC, on this machine unless told otherwise."""

import contextlib
import logging
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.util import is_remote_only

from couriermq.spark import starting

Session = SparkSession
"""For those who only pass it on, and must not load Spark to say what it is."""

LOG4J = Path(__file__).with_name("log4j2.properties")

LOCAL = "local[*]"
REMOTE = "sc://"
"""How the address of a Spark Connect server begins."""
PORTS = {"spark": 7077, "sc": 15002}
"""Of the addresses that a TCP connection can be tried with, and where none is given."""
ANSWER_S = 10.0
RUNTIME = "spark.sql."
"""How the settings begin that belong to a session rather than to the Spark that it runs on."""


ENVIRON = {"OPENBLAS_NUM_THREADS": "1"}
"""For all Pythons that a Spark of this machine starts. There is a worker for each core, and a stream has a process that
computes nothing: threads of numpy's own would only look for work, each with a core to itself, while Spark begins."""

UNCHECKED = ("-Darrow.enable_unsafe_memory_access=true", "-Darrow.enable_null_check_for_get=false")
"""Arrow looks twice at each value that it gives out; these come from Spark's own workers, which have checked them."""

LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Where Linux says whether it gives memory in large pages: to all, to those who ask, or never."""


class NoSpark(Exception):
    """Spark cannot be started; the text says why, and what it needs."""


@contextlib.contextmanager
def telling(log: Path) -> Iterator[None]:
    """Have a JVM that is started in this block write into a file what it would write to standard error, for life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def hush() -> None:
    """Have pyspark not print each error of a query with the JVM's whole stack: a command says it in one sentence."""
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)


def open_session(where: str = LOCAL, *, name: str = "courier", conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session on a master, or through Spark Connect on `sc://host:port`; `conf` adds to, and wins over, what is set.

    A Spark that is reached through Connect has been started by somebody else: only a session's own settings go there.
    """
    _require_answer(where)
    settings = _settings_for(where) | dict(conf or {})
    lent = dict(ENVIRON) if where.startswith("local") else {}
    if where.startswith(REMOTE):
        builder = SparkSession.builder.remote(where)
        settings = {key: value for key, value in settings.items() if key.startswith(RUNTIME)}
    else:
        _require_spark()
        _require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers take whatever `python3` there is
        if where.startswith("local") and (home := _light_home()) is not None:
            settings = _hidden_core(home) | settings
            lent |= starting.variables(home)
        builder = SparkSession.builder.master(where).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _lent(lent):
            return builder.getOrCreate()
    except Exception as error:  # from the JVM, from its gateway, or from the network: nothing else runs in there
        raise NoSpark(f"Spark does not start on {where}: {reason_of(error)}") from error


def reason_of(error: BaseException) -> str:
    """One sentence of an error of Spark's: what Courier said inside it, if it did, for Spark wraps that in others."""
    text = error.getMessage() if isinstance(error, PySparkException) else str(error)
    lines = [line.strip() for line in (text or str(error)).splitlines()]
    told = [line.partition(": ")[2] for line in lines if line.startswith("couriermq.") and ": " in line]
    return told[-1] if told else next((line for line in lines if line), type(error).__name__)


@contextlib.contextmanager
def _lent(variables: Mapping[str, str]) -> Iterator[None]:
    """Have a JVM that is started in this block know these, and what it starts: not all of that is told by a setting of
    Spark's. What somebody has set stays as it is, and so does the environment of this process afterwards."""
    lent = {name: value for name, value in variables.items() if os.environ.get(name, sys.executable) == sys.executable}
    kept = {name: os.environ[name] for name in lent if name in os.environ}  # `interpreter` has named this Python
    os.environ.update(lent)
    try:
        yield
    finally:
        for name in lent:
            del os.environ[name]
        os.environ.update(kept)


def _light_home() -> Path | None:
    """A home of Spark without its Python sources in a zip, which each worker would compile anew when it starts.

    Workers of this machine run this Python and have the sources from where it has them. None where somebody has chosen
    another home.
    """
    installed = Path(pyspark.__file__).parent
    home = Path(sys.prefix) / "var" / f"spark-{pyspark.__version__}"
    if os.environ["PYSPARK_PYTHON"] != sys.executable or not (installed / "jars").is_dir():
        return None
    try:
        home.mkdir(parents=True, exist_ok=True)
        for name in ("bin", "jars"):
            with contextlib.suppress(FileExistsError):
                (home / name).symlink_to(os.path.relpath(installed / name, home))
    except OSError:  # installed by somebody else: it works without, only later
        return None
    return home if os.environ.setdefault("SPARK_HOME", str(home)) == str(home) else None


def _hidden_core(home: Path) -> dict[str, str]:
    """The jar that Spark is in, where Python does not find it.

    Spark puts it before the path of each Python, which would read the names of six thousand classes before it does
    anything else. Spark writes the place as a URL does, with %5e for ^: that is nowhere.
    """
    place = home / "java^"
    try:
        (core,) = (home / "jars").glob("spark-core_*.jar")
        place.mkdir(exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (place / core.name).hardlink_to(core.resolve())
    except (OSError, ValueError):  # on a disk without links, say: it works without, only later
        return {}
    return {"spark.driver.extraClassPath": str(place / core.name)}


def _require_spark() -> None:
    if is_remote_only():
        raise NoSpark("here is only a client of Spark Connect: give --remote, or install couriermq[spark] in its place")


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        where = f"in JAVA_HOME ({home})" if home else "in the path, and JAVA_HOME is not set"
        raise NoSpark(f"Spark needs Java 17 or newer, and there is no java {where}")


def _require_answer(where: str) -> None:
    """Spark itself takes minutes to find out that nobody is there."""
    scheme, _, rest = where.partition("://")
    hosts = [host for host in rest.partition("/")[0].split(",") if host] if scheme in PORTS else []
    if hosts and not any(_answers(host, PORTS[scheme]) for host in hosts):
        raise NoSpark(f"Spark does not start on {where}: nobody answers there")


def _answers(host: str, port: int) -> bool:
    name, _, given = host.partition(":")
    try:
        with socket.create_connection((name, int(given or port)), timeout=ANSWER_S):
            return True
    except (OSError, ValueError):
        return False


def _settings_for(where: str) -> dict[str, str]:
    if where.startswith(REMOTE):
        return {"spark.sql.session.timeZone": "UTC"}
    if not where.startswith("local"):
        return _quiet()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return _quiet() | _on_this_machine()


def _quiet() -> dict[str, str]:
    return {
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": java_options(),
        "spark.executor.extraJavaOptions": " ".join(UNCHECKED),
        "spark.sql.streaming.metricsEnabled": "false",
        # Rows that Spark keeps for its own status pages.
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        # Hadoop gives files rights of its own choice, whatever the process says.
        "spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}",
    }


def _umask() -> int:
    """The umask of this process, which can only be asked for by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def java_options(*more: str) -> str:
    return " ".join((f"-Dlog4j2.configurationFile=file:{LOG4J}", *UNCHECKED, *more))


def _large_pages() -> list[str]:
    """Rows are made and dropped by the gigabyte, which is cheaper in a heap of large pages; a JVM that is refused them
    would complain."""
    try:
        given = "[never]" not in LARGE_PAGES.read_text()
    except OSError:
        given = False
    return ["-XX:+UseTransparentHugePages"] if given else []


def _on_this_machine() -> dict[str, str]:
    cores = str(os.cpu_count() or 1)
    return {
        "spark.driver.extraJavaOptions": java_options(*_large_pages()),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        # Rows come from Python workers of this machine: by the shortest way, in large pieces.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.buffer.size": str(1024 * 1024),
        "spark.sql.shuffle.partitions": cores,
        "spark.default.parallelism": cores,
    }
