"""A command that the tests fork does what one that is started does."""

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import COMMAND, Courier, Run

pytestmark = pytest.mark.slow

LINES = {
    "sheet": ("queues", "show", "orders"),
    "table": ("queues", "list"),
    "not-there": ("queues", "show", "nothing"),
    "usage": ("queues", "create", "--no-such-option"),
    "no-file": ("send", "orders", "--file", "no-such-file"),
    "input": ("send", "orders", "-", "--json"),
    "versions": ("version",),
}


def started(courier: Courier, arguments: tuple[str, ...], *, stdin: bytes, cwd: Path, **environ: str) -> Run:
    command = [*COMMAND, *arguments]
    environ = courier.environ | environ
    return Run(subprocess.run(command, input=stdin, capture_output=True, env=environ, cwd=cwd, timeout=60, check=False))


@pytest.mark.parametrize("arguments", LINES.values(), ids=LINES)
@pytest.mark.usefixtures("tenant")
def test_it_ends_and_prints_like_one_that_is_started(
    courier: Courier, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    courier.ok("queues", "create", "orders")
    forked = courier(*arguments, stdin=b"hello", cwd=tmp_path, COLUMNS="40", LC_ALL="C.UTF-8")
    other = started(courier, arguments, stdin=b"hello", cwd=tmp_path, COLUMNS="40", LC_ALL="C.UTF-8")
    assert (forked.code, forked.err) == (other.code, other.err)
    if "--json" in arguments:
        assert forked.json.keys() == other.json.keys()
    else:
        assert forked.out == other.out


def test_it_works_in_its_folder_with_its_variables(courier: Courier, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("wrong-token")
    environ = {name: value for name, value in courier.environ.items() if name != "COURIER_TOKEN"}
    refused = Courier(**environ)("queues", "list", cwd=tmp_path, COURIER_TOKEN_FILE="token")
    assert refused.code == 4, refused.err
    assert courier("queues", "list", cwd=tmp_path).code == 0
