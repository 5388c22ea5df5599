"""A TCP relay in this process that counts what the server sends through it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

CHUNK = 65_536


class Relay:
    """Passes connections on to one server."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (str(parts.hostname), int(parts.port or 80))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.byte_count = 0
        """Bytes that the server has sent."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._sockets += [client, server]
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(server, client), kwargs={"counts": True}).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, *, counts: bool = False) -> None:
        with contextlib.suppress(OSError):  # either side has hung up
            while chunk := source.recv(CHUNK):
                if counts:
                    self.byte_count += len(chunk)
                target.sendall(chunk)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@contextlib.contextmanager
def relay(url: str) -> Iterator[Relay]:
    way = Relay(url)
    try:
        yield way
    finally:
        way.close()
