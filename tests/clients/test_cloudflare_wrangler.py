"""wrangler, the vendor's own command line, works with nothing but a URL and a token."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, start_server

WRANGLER = Path(__file__).parent / "node" / "node_modules" / "wrangler" / "bin" / "wrangler.js"

pytestmark = pytest.mark.slow


class Wrangler:
    """wrangler as somebody runs it in an empty folder, without an account id."""

    def __init__(self, server: ServerProcess, home: Path) -> None:
        self._home = home
        self._environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLOUDFLARE_API_BASE_URL": f"{server.url}/client/v4",
            "CLOUDFLARE_API_TOKEN": server.token,
            "WRANGLER_SEND_METRICS": "false",
            "NO_COLOR": "1",
            "CI": "1",
        }

    def run(self, command: str, *, fails: bool = False) -> str:
        """What a command prints."""
        program = subprocess.run(
            ["node", str(WRANGLER), *command.split()],
            cwd=self._home,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        said = program.stdout + program.stderr
        assert (program.returncode != 0) == fails, f"{said}\nIs it installed? `make install-all` does."
        return said


@pytest.fixture(scope="module")
def wrangler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wrangler]:
    folder = tmp_path_factory.mktemp("wrangler")
    home = folder / "home"
    home.mkdir()
    with start_server(folder) as server:
        yield Wrangler(server, home)


def test_whoami_names_the_caller_and_its_account(wrangler: Wrangler) -> None:
    said = wrangler.run("whoami")
    assert "root@courier.invalid" in said
    assert "default" in said


def test_queues_are_managed_without_an_account_id(wrangler: Wrangler) -> None:
    assert "Created queue 'orders'" in wrangler.run("queues create orders")
    assert "already taken" in wrangler.run("queues create orders", fails=True)
    wrangler.run("queues consumer http add orders --dead-letter-queue orders-dead --retry-delay-secs 5")
    assert "already has a consumer" in wrangler.run("queues consumer worker add orders mailer", fails=True)
    assert "HTTP Pull Consumer" in wrangler.run("queues info orders")
    wrangler.run("queues subscription create orders --source kv --events namespace.created")
    assert "namespace.created" in wrangler.run("queues subscription list orders")
    wrangler.run("queues delete orders")
    assert "orders-dead" in wrangler.run("queues list")
