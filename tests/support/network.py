"""A network of namespaces on this machine: every address lives in a namespace of its own, and lines can be cut.

All are plugged into one bridge. Those that are `apart` cannot reach each other, silently, as if a cable were cut; they
still reach everybody else.
"""

import asyncio
import contextlib
import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from tests.support.postgres import Cluster
from tests.support.server import ServerProcess

SUBNET = "10.77.0.0/24"
HUB = "10.77.0.1"
TOKEN = "root-token-of-nodes-that-others-reach"
CLONE_NEWNET = 0x40000000


class Network:
    """The hub is where clients and receivers are; `plug` adds a place with an address."""

    def __init__(self) -> None:
        self._prefix = f"courier{os.getpid()}"
        self._places: dict[str, int] = {}
        self.hub = f"{self._prefix}-hub"
        _ip("netns", "add", self.hub)
        _ip("-n", self.hub, "link", "set", "lo", "up")
        _ip("-n", self.hub, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", self.hub, "address", "add", f"{HUB}/24", "dev", "bridge0")
        _ip("-n", self.hub, "link", "set", "bridge0", "up")

    def plug(self, place: str) -> str:
        """Add a place; its address."""
        number = self._places[place] = len(self._places) + 2
        namespace, port, address = self.namespace(place), f"port{number}", f"10.77.0.{number}"
        _ip("netns", "add", namespace)
        _ip("-n", self.hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("-n", self.hub, "link", "set", port, "master", "bridge0", "up")
        _ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", device, "up")
        return address

    def namespace(self, place: str) -> str:
        return f"{self._prefix}-{place}"

    def part(self, *places: str) -> None:
        """From now on these places, and no others, cannot reach each other."""
        for place, number in self._places.items():
            apart = "on" if place in places else "off"
            bridge = ["bridge", "link", "set", "dev", f"port{number}", "isolated", apart]
            subprocess.run(["ip", "netns", "exec", self.hub, *bridge], check=True)

    def run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run in a thread whose sockets are in the hub."""
        failures: list[BaseException] = []

        def inside() -> None:
            try:
                _enter(self.hub)
                asyncio.run(work())
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=inside)
        thread.start()
        thread.join()
        if failures:
            raise failures[0]

    def remove(self) -> None:
        for namespace in (*map(self.namespace, self._places), self.hub):
            _ip("netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _enter(namespace: str) -> None:
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    finally:
        os.close(descriptor)


class RemoteCluster(Cluster):
    """A PostgreSQL that is reached over the network; its socket serves the test alone."""

    def __init__(self, network: Network) -> None:
        self._namespace = network.namespace("db")
        self.address = network.plug("db")
        super().__init__(listen_addresses=self.address)

    def _create(self, settings: dict[str, str]) -> None:
        super()._create(settings)
        with (self.data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {SUBNET} trust\n")

    def _run(self, command: Any) -> None:
        assert self._user is not None, "namespaces are root's to make"
        who = [f"--setuid={self._user.pw_uid}", f"--setgid={self._user.pw_gid}"]
        inside = ["nsenter", f"--net=/run/netns/{self._namespace}", *who, *command]
        subprocess.run(inside, check=True, cwd=self.folder, stdout=subprocess.DEVNULL)

    @property
    def remote_url(self) -> str:
        return f"postgresql://courier@{self.address}/postgres"


@contextlib.contextmanager
def remote_nodes(network: Network, tmp_path: Path, store: str, count: int) -> Iterator[list[ServerProcess]]:
    """Nodes, each in a place of its own."""
    nodes: list[ServerProcess] = []
    try:
        for number in range(count):
            address = network.plug(f"node{number}")
            data = tmp_path / f"node{number}"
            data.mkdir()
            node = ServerProcess(data, {"store": store, "host": address, "delivery_allow": SUBNET, "root_token": TOKEN})
            node.address = address
            node.prefix = ["ip", "netns", "exec", network.namespace(f"node{number}")]
            nodes.append(node)
            node.start()
        yield nodes
    finally:
        for node in nodes:
            if node.running:
                node.kill()
