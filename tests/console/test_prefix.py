"""The console below a path prefix, behind nginx."""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.console.support import Console
from tests.support.eventually import eventually_sync
from tests.support.ports import free_port
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
CONFIG = """
daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{
    listen 127.0.0.1:{port};
    location /queues-of-mine/ {{
      proxy_pass {backend}/;
      proxy_http_version 1.1;
      proxy_buffering off;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Prefix /queues-of-mine;
    }}
  }}
}}
"""


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def below_a_prefix(server: ServerProcess, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    config = tmp_path / "nginx.conf"
    config.write_text(CONFIG.format(folder=tmp_path, port=port, backend=server.url))
    process = subprocess.Popen([NGINX, "-c", config, "-p", tmp_path], stderr=subprocess.DEVNULL)
    eventually_sync(lambda: answers(port))
    yield f"http://127.0.0.1:{port}/queues-of-mine"
    process.terminate()
    process.wait(10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    from tests.support.server import start_server

    with start_server(tmp_path_factory.mktemp("console"), trusted_proxies="127.0.0.1/32") as server:
        yield server


def test_the_console_works_below_a_path_prefix(page: Page, server: ServerProcess, below_a_prefix: str) -> None:
    console = Console(page, server, base=below_a_prefix)
    queue = console.queue()
    console.sign_in().open("queues").page.get_by_role("link", name=queue).click()
    expect(page).to_have_url(f"{below_a_prefix}/console/queues/{queue}")
    page.get_by_role("link", name="Messages").click()
    console.say("No messages")
    console.send(queue, body="through the proxy")
    console.say("through the proxy")
