"""A thread that syncs, for an event loop that must not wait for the disk."""

import asyncio
import contextlib
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

Done = Callable[[Exception | None], None]
Job = tuple[asyncio.AbstractEventLoop, Done]


class SyncThread:
    """One sync at a time; an executor does the same for three times the price, and every commit pays it."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="courier-sync", daemon=True)
        self._thread.start()

    def start(self, done: Done) -> None:
        """Sync; `done` is called in the event loop with the error, if there was one."""
        self._jobs.put((asyncio.get_running_loop(), done))

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, done = job
            error = self._attempt()
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                loop.call_soon_threadsafe(done, error)

    def _attempt(self) -> Exception | None:
        try:
            self._sync()
        except Exception as error:
            return error
        return None
