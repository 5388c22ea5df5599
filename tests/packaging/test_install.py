"""The wheel in an empty environment, next to another project that has the import name `courier`."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from couriermq import __version__
from tests.support.packages import ROOT, UV, Packages, environ, run

pytestmark = pytest.mark.slow

TOKEN = "root-token"
START_SECONDS = 60
STOP_SECONDS = 40
DESCRIBE = """
import importlib.metadata as metadata, json, pkgutil, courier, couriermq
files = {name: sorted(map(str, metadata.files(name))) for name in ("couriermq", "trycourier")}
owners = metadata.packages_distributions()
print(json.dumps({
    "files": files,
    "owners": {name: owners.get(name) for name in ("courier", "couriermq", "pyspark_courier")},
    "found_by_spark": [module.name for module in pkgutil.iter_modules() if module.name.startswith("pyspark_")],
    "places": [courier.__file__, couriermq.__file__],
}))
"""


@pytest.fixture(scope="module")
def installed(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The environment's folder of programs."""
    folder = tmp_path_factory.mktemp("installed")
    python = folder / "env/bin/python"
    run(UV, "venv", "--quiet", "--python", sys.executable, folder / "env", cwd=folder)
    locks = [part for lock in ("server", "beside") for part in ("-r", ROOT / f"locks/{lock}.txt")]
    run(UV, "pip", "install", "--quiet", "--python", python, "--require-hashes", *locks, cwd=folder)
    run(UV, "pip", "install", "--quiet", "--python", python, "--no-deps", packages.wheel, cwd=folder)
    run(UV, "pip", "check", "--quiet", "--python", python, cwd=folder)
    return python.parent


@contextlib.contextmanager
def serving(programs: Path, folder: Path) -> Iterator[str]:
    """The URL of a `courier serve` that was started in the folder."""
    with (folder / "log").open("wb") as log:
        settings = environ(COURIER_ROOT_TOKEN=TOKEN, COURIER_PORT="0")
        server = subprocess.Popen([programs / "courier", "serve"], cwd=folder, env=settings, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{await_port(server, folder)}"
    finally:
        server.terminate()
        exit_code = server.wait(STOP_SECONDS)
    assert exit_code == 0, (folder / "log").read_text()


def await_port(server: subprocess.Popen[bytes], folder: Path) -> int:
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            return int((folder / "courier-data/port").read_text())
        time.sleep(0.02)  # another process starts: there is no clock of ours to move
    server.kill()
    raise AssertionError(f"the server did not start:\n{(folder / 'log').read_text()}")


def test_the_installed_command_serves_and_a_message_goes_through(installed: Path, tmp_path: Path) -> None:
    with serving(installed, tmp_path) as url:

        def courier(*arguments: str) -> str:
            return run(installed / "courier", *arguments, cwd=tmp_path, COURIER_URL=url, COURIER_TOKEN=TOKEN)

        courier("queues", "create", "orders")
        courier("send", "orders", "hello")
        assert courier("receive", "orders", "--ack", "--raw") == "hello\n"
        assert json.loads(courier("version", "--json"))["courier"] == __version__
        assert requests.get(f"{url}/docs", timeout=20).headers["content-type"].startswith("text/html")
        assert requests.get(f"{url}/openapi/native.json", timeout=20).json()["info"]["version"] == __version__


def test_its_packages_are_its_own(installed: Path, tmp_path: Path) -> None:
    about = json.loads(run(installed / "python", "-c", DESCRIBE, cwd=tmp_path))
    assert about["owners"] == {"courier": ["trycourier"], "couriermq": ["couriermq"], "pyspark_courier": ["couriermq"]}
    assert set(about["files"]["couriermq"]) & set(about["files"]["trycourier"]) == set()
    assert [place for place in about["places"] if not place.startswith(str(installed.parent))] == []
    assert about["found_by_spark"] == ["pyspark_courier"]
