"""The connector loads where there is no server, and the server where there is no Spark."""

import subprocess
import sys

import pytest

REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Refuse())
{script}
"""
SERVER = {
    "msgspec",
    "uvicorn",
    "uvloop",
    "httptools",
    "aiohttp",
    "cyclopts",
    "cryptography",
    "prometheus_client",
    "rich",
}


@pytest.mark.parametrize(
    ("missing", "script"),
    [
        (
            SERVER,
            "import couriermq.spark.pipeline\n"
            "from pyspark_courier import DefaultSource\n"
            "assert DefaultSource.name() == 'courier'",
        ),
        ({"pyspark", "py4j", "pandas"}, "import couriermq.server, couriermq.cli.pipeline"),
    ],
    ids=["connector", "server"],
)
def test_it_loads_without_the_other(missing: set[str], script: str) -> None:
    done = subprocess.run([sys.executable, "-c", REFUSE.format(missing=missing, script=script)], check=False)
    assert done.returncode == 0


def test_the_server_starts_without_pyarrow_in_memory() -> None:
    script = "import sys, couriermq.server; sys.exit('pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
