"""A server that delivers to receivers that attack it."""

import itertools
from typing import Any

import requests

from tests.support.eventually import eventually_sync
from tests.support.hostile import ATTACK_BYTES, MIB, Watch
from tests.support.receiver_attacks import Receivers
from tests.support.server import TLS, ServerProcess

QUEUES = "/courier/v1/tenants/default/queues"
MESSAGES = 10
"""How many deliveries fail before a listener's breaker opens."""
SETTINGS: dict[str, Any] = {"delivery_allow": "127.0.0.0/8", "delivery_ca_file": TLS / "cert.pem"}


class Courier:
    """A server that delivers to the receivers."""

    def __init__(self, server: ServerProcess, receivers: Receivers) -> None:
        self.server = server
        self.receivers = receivers
        self._session = server.session
        self._numbers = itertools.count()

    def watch(self) -> Watch:
        return Watch(self.server.pid, self.server.url)

    def ask(self, method: str, path: str, json: Any = None) -> Any:
        answer: requests.Response = self._session.request(
            method, self.server.url + QUEUES + path, json=json, timeout=60
        )
        assert answer.ok, answer.text
        return answer.json() if answer.content else None

    def queue(self, attack: str, *, listeners: int, timeout_ms: int = 10_000) -> "Attacked":
        queue = f"/attacked-{next(self._numbers)}"
        self.ask("POST", "", {"name": queue[1:], "settings": {"max_body_bytes": 16 * MIB}})
        settings = {"concurrency": 1, "timeout_ms": timeout_ms}
        url = self.receivers.url(attack)
        made = [
            self.ask("POST", queue + "/listeners", {"name": f"l{number}", "url": url, "settings": settings})["id"]
            for number in range(listeners)
        ]
        return Attacked(self, queue, made)

    def flood(self, attack: str, *, connections: int) -> list["Attacked"]:
        """Deliver until the receivers of this attack have written enough; the queues that it took."""
        before = self.receivers.tally(attack).written
        queues = []
        while self.receivers.tally(attack).written - before < ATTACK_BYTES:
            queue = self.queue(attack, listeners=connections)
            queues.append(queue)
            queue.send(MESSAGES)
            queue.finish(MESSAGES)
        eventually_sync(lambda: self.receivers.tally(attack).open == 0)
        return queues


class Attacked:
    """A queue and its listeners."""

    def __init__(self, courier: Courier, path: str, listeners: list[str]) -> None:
        self._courier = courier
        self._path = path
        self._listeners = listeners

    def send(self, count: int, body: str = "hello") -> None:
        self._courier.ask("POST", self._path + "/messages", {"messages": [{"body": body}] * count})

    def outcomes(self) -> tuple[int, int]:
        """How many deliveries have succeeded, and how many attempts have failed."""
        found = [self._courier.ask("GET", f"{self._path}/listeners/{name}")["health"] for name in self._listeners]
        return sum(health["success_count"] for health in found), sum(health["failure_count"] for health in found)

    def finish(self, count: int) -> None:
        """Wait until each listener has had so many attempts."""
        eventually_sync(self.outcomes, lambda seen: sum(seen) >= count * len(self._listeners), seconds=60)
