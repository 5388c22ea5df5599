"""The options that every command which runs on Spark shares, and the Spark that they lead to."""

import contextlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from couriermq.cli.exits import Exit, Failure, usage
from couriermq.cli.screen import Screen

if TYPE_CHECKING:
    from couriermq.spark.session import Session
GROUP = Group("Spark", sort_key=85)
LOCAL = "local[*]"
REMOTE = "sc://"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Spark:
    """Which Spark a job runs on."""

    master: Annotated[str | None, Parameter(group=GROUP, metavar="URL")] = None
    """Run on this master, such as local[4] or spark://host:7077. [default: local[*]]"""

    remote: Annotated[str | None, Parameter(group=GROUP, metavar="URL")] = None
    """Run through this server of Spark Connect, such as sc://host:15002."""

    @contextlib.contextmanager
    def session(self, name: str, *, log: Path, screen: Screen) -> Iterator["Session"]:
        """A session for a job; what Spark itself has to say goes into the log. A failure is one sentence."""
        where = self.where()
        require_spark()
        from couriermq.spark.session import NoSpark, hush, open_session, telling  # noqa: PLC0415 - loads Spark

        hush()
        screen.note("starting Spark")
        try:
            with telling(log):
                session = open_session(where, name=name)
        except NoSpark as error:
            raise Failure(str(error), Exit.FAILED) from None
        try:
            yield session
        finally:
            session.stop()

    def where(self) -> str:
        """The master or the server of Spark Connect; what was typed must make sense."""
        if self.master is not None and self.remote is not None:
            raise usage("--master and --remote contradict each other")
        if self.remote is not None and not self.remote.startswith(REMOTE):
            raise usage(
                f"--remote is {self.remote!r}; give the address of a Spark Connect server, such as sc://host:15002"
            )
        return self.remote or self.master or LOCAL


def require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("this needs Spark: install couriermq[spark] and Java 17 or newer")


SPARK = Spark()
