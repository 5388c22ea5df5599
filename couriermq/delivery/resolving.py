"""Names into addresses, in threads of our own: a name server that hangs holds up only those who ask for that name."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

THREADS = 64
LOOKUP_SECONDS = 5.0


class SystemResolver:
    """Asks the system, once at a time for each name."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="courier-resolve")
        self._asking: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def resolve(self, host: str, port: int) -> list[str]:
        key = (host, port)
        asked = self._asking.get(key)
        if asked is None:
            asked = asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port)
            self._asking[key] = asked
            asked.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.wait_for(asyncio.shield(asked), LOOKUP_SECONDS)

    def _answered(self, key: tuple[str, int], done: "asyncio.Future[list[str]]") -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # whoever asked may have gone: nobody else looks at it

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
