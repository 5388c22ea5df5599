"""The commands that the README and the quickstart print work as printed."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.eventually import eventually_sync

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600

pytestmark = pytest.mark.slow


def shell_blocks(page: str, *, until: str | None = None) -> list[str]:
    """The page's `sh` blocks, in order."""
    text = (ROOT / page).read_text()
    text = text.partition(until)[0] if until else text
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@contextmanager
def started(command: str, data: Path) -> Iterator[str]:
    """Run the page's own command to start a server, on a free port and another data directory."""
    environ = {**os.environ, "COURIER_PORT": "0", "COURIER_DATA": str(data)}
    server = subprocess.Popen(["bash", "-c", command], cwd=ROOT, env=environ, start_new_session=True)
    try:
        yield f"127.0.0.1:{await_port(server, data / 'port')}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(PATIENCE_S)


def await_port(server: subprocess.Popen[bytes], file: Path) -> int:
    def port() -> str:
        assert server.poll() is None, "the server ended before it listened"
        return file.read_text().strip() if file.exists() else ""

    return int(eventually_sync(port, seconds=PATIENCE_S))


def type_in(blocks: list[str], address: str, data: Path) -> str:
    """What a terminal shows for the blocks, one after the other in one shell that stops at the first failure."""
    folder = data.parent
    (folder / ".venv").symlink_to(ROOT / ".venv")
    script = "set -euo pipefail\n" + "\n".join(blocks).replace("127.0.0.1:8080", address)
    environ = {**os.environ, "COURIER_URL": f"http://{address}", "COURIER_DATA": str(data)}
    shell = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert shell.returncode == 0, shell.stdout + shell.stderr
    return shell.stdout


def test_the_first_screen_of_the_readme_installs_serves_sends_and_receives(tmp_path: Path) -> None:
    start, *rest = shell_blocks("README.md", until="## What it does")
    with started(start, tmp_path / "data") as address:
        shown = type_in(rest, address, tmp_path / "data")
    assert '"name":"books"' in shown
    assert re.search(r'"leases":\[\{"receipt":"[^"]+".*\\"item\\":', shown)
    assert re.search(r'\{"seq":1,"id":"[^"]+"', shown.partition('"leases"')[2])
    assert "hello" in shown


def test_three_commands_lead_from_messages_to_a_query_and_the_report(tmp_path: Path) -> None:
    start, *first = shell_blocks("README.md", until="## What it does")
    text = (ROOT / "README.md").read_text().partition("## From messages to tables")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [line for line in block.splitlines() if line.strip()]
    assert len(commands) == 3
    for name in ("Makefile", "pyproject.toml", "locks"):
        (tmp_path / name).symlink_to(ROOT / name)
    with started(start, tmp_path / "courier-data") as address:
        shown = type_in([*first, block], address, tmp_path / "courier-data")
    rows = re.findall(r"books +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\S* +(\d+) +(\d+) +(\d+)", shown)
    _, sent, acked, _ = zip(*rows, strict=True)
    assert (sum(map(int, sent)), sum(map(int, acked))) == (2, 2)  # in one minute or two, in any order
    *_, backlog = max(rows)
    assert backlog == "0"
    assert "into report.html" in shown
    assert "Throughput" in (tmp_path / "report.html").read_text()


def test_the_quickstart_works_from_top_to_bottom(tmp_path: Path) -> None:
    start, *rest = shell_blocks("docs/quickstart.md")
    with started(start, tmp_path / "data") as address:
        shown = type_in(rest, address, tmp_path / "data")
    check_quickstart(shown)


def test_the_quickstart_goes_on_with_the_server_of_the_readme(tmp_path: Path) -> None:
    start, *readme = shell_blocks("README.md", until="## What it does")
    same, *quickstart = shell_blocks("docs/quickstart.md")
    assert same.splitlines()[-1] == start.splitlines()[-1]
    with started(start, tmp_path / "data") as address:
        shown = type_in([*readme, *quickstart], address, tmp_path / "data")
    check_quickstart(shown)


def check_quickstart(shown: str) -> None:
    for sign in (
        "so it is dead",
        "attempts exhausted",
        "redrove 1 message",
        "done with 1",
        "through Anypoint MQ",
        "received",
    ):
        assert sign in shown
