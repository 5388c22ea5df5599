"""A PySpark program finds Courier without its environment being activated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from couriermq.spark import interpreter
from tests.support.server import ServerProcess

PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
events = spark.read.format("courier").options(url=sys.argv[1], token=sys.argv[2]).load()
print("kinds:", sorted({row.kind for row in events.select("kind").collect()}))
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    """A path on which `python3` is another one, which has none of this environment's packages."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.base_prefix) / "bin" / "python3")
    return f"{tmp_path / 'bin'}:/usr/bin:/bin"


@pytest.mark.slow
def test_a_program_finds_the_format_in_an_environment_that_is_not_activated(
    server: ServerProcess, elsewhere: str, tmp_path: Path
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("COURIER_", "PYSPARK_"))}
    environ = {**kept, "PATH": elsewhere, "SPARK_LOCAL_IP": "127.0.0.1"}
    environ.pop("SPARK_HOME", None)
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", server.url, str(server.token)]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "'tenant_added'" in done.stdout


def test_a_python_that_somebody_has_named_stays(monkeypatch: pytest.MonkeyPatch, elsewhere: str) -> None:
    monkeypatch.setenv("PATH", elsewhere)
    monkeypatch.setenv(interpreter.EVERYWHERE, "/opt/python")
    monkeypatch.delenv(interpreter.DRIVER, raising=False)
    interpreter.choose()
    assert interpreter.DRIVER not in os.environ


def test_an_activated_environment_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, elsewhere: str) -> None:
    for name in (interpreter.DRIVER, interpreter.EVERYWHERE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{elsewhere}")
    interpreter.choose()
    assert interpreter.DRIVER not in os.environ
    monkeypatch.setenv("PATH", elsewhere)
    interpreter.choose()
    assert os.environ[interpreter.DRIVER] == sys.executable
    monkeypatch.delenv(interpreter.DRIVER)
