"""Take a picture of every page of the console: `python -m tools.picture_console docs/console`.

Starts a server on a data directory of its own, sends and receives made-up messages, and looks with Chromium.
"""

import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import requests
from playwright.sync_api import Page, expect, sync_playwright

TOKEN = "token-of-the-pictures"
SIZE = {"width": 1200, "height": 780}
ROUNDS, START_SECONDS = 40, 60
QUEUES = ("orders", "emails", "invoices", "shipments", "refunds", "clicks", "exports", "payments")


class Made:
    """A server with made-up traffic."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {TOKEN}"
        self._dice = random.Random(7)

    def call(self, method: str, path: str, body: Any = None, token: str = TOKEN) -> Any:
        url, headers = f"{self.url}/courier/v1/tenants/default{path}", {"Authorization": f"Bearer {token}"}
        answer = self._session.request(method, url, json=body, headers=headers, timeout=60)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def build(self) -> str:
        """Queues, an exchange, a listener that nobody answers, and traffic; the id of a message that died."""
        self.call("POST", "/queues", {"name": "orders-failed"})
        for name in QUEUES:
            failing = {"max_attempts": 2, "dead_letter_queue": "orders-failed"} if name in QUEUES[:3] else {}
            self.call("POST", "/queues", {"name": name, "settings": failing})
        self.call("PATCH", "/queues/orders", {"settings": {"lease_ms": 120_000}})
        self.call("POST", "/exchanges", {"name": "events"})
        rule = {"attribute": "region", "type": "string", "matcher": "eq", "value": "eu"}
        self.call("PUT", "/exchanges/events/bindings/emails", {"rules": [rule]})
        self.call("PUT", "/exchanges/events/bindings/clicks", {"rules": []})
        self.call("POST", "/queues/shipments/listeners", {"name": "erp", "url": "http://127.0.0.1:9/hook"})
        shop, billing = (self.call("POST", "/credentials", {"name": name})["secret"] for name in ("shop", "billing"))
        for _ in range(ROUNDS):
            for name in QUEUES:
                self._round(name, shop, billing)
        self.call("PATCH", "/queues/exports", {"settings": {"paused": True}})
        dead = self.call("GET", "/queues/orders-failed/messages?limit=1")["messages"]
        return str(dead[0]["id"])

    def _round(self, name: str, shop: str, billing: str) -> None:
        order = {"order": self._dice.randrange(10**6), "customer": self._dice.choice(("acme", "globex", "initech"))}
        drafts = [{"json": order, "attributes": {"region": "eu"}} for _ in range(self._dice.randrange(1, 6))]
        self.call("POST", f"/queues/{name}/messages", {"messages": drafts}, shop)
        for lease in self.call("POST", f"/queues/{name}/receive", {"limit": 3}, billing)["leases"]:
            verb = "release" if self._dice.random() < 0.2 else "ack"
            self.call("POST", f"/queues/{name}/{verb}", {"receipt": lease["receipt"]}, billing)
        self.call("POST", f"/queues/{name}/receive", {"limit": 1}, billing)


def pages(message: str) -> dict[str, str]:
    """The name of each picture, and the page on it."""
    lists = ("queues", "map", "exchanges/events", "listeners", "tail", "history", "credentials", "server")
    tabs = {f"queue-{tab}": f"queues/orders/{tab}" for tab in ("messages", "receivers", "settings")}
    named = {path.partition("/")[0]: path for path in lists}
    dead = {"queue-dead": "queues/orders-failed/dead", "message": f"messages/{message}?queue=orders-failed"}
    return {"overview": "", "queue": "queues/orders"} | named | tabs | dead


def take(made: Made, message: str, target: Path, page: Page) -> None:
    page.goto(f"{made.url}/console")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    for name, path in pages(message).items():
        page.goto(f"{made.url}/console/{path}")
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("[aria-busy=true]")).to_have_count(0)
        if name == "tail":
            expect(page.get_by_text("Waiting for events…")).to_be_visible()
            made.call("POST", "/queues/orders/messages", {"messages": [{"body": "x"}] * 12})
            expect(page.locator(".event").first).to_be_visible()
        page.screenshot(path=target / f"{name}.png")


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        command = [sys.executable, "-m", "couriermq.cli", "serve", "--port", "0", "--data", folder]
        settings = {"COURIER_ROOT_TOKEN": TOKEN, "COURIER_DELIVERY_ALLOW": "127.0.0.0/8"}
        server = subprocess.Popen(command, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            made = Made(f"http://127.0.0.1:{_port(Path(folder))}")
            message = made.build()
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce")  # type: ignore[arg-type]
            target.mkdir(parents=True, exist_ok=True)
            take(made, message, target, page)
            browser.close()
        finally:
            server.terminate()
            server.wait()


def _port(folder: Path) -> str:
    for _ in range(START_SECONDS * 10):
        if (folder / "port").exists():
            return (folder / "port").read_text().strip()
        time.sleep(0.1)
    raise SystemExit("the server did not start")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
