"""The memory of a page that shows the tail, sample by sample: `python -m tests.console.tail_memory --seconds 3600`.

A server on an empty data directory, a program that makes 1,000 events a second over HTTP, and Chromium with the tail
of every queue open.
"""

import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cyclopts
import requests
from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from tests.console.support import CHROMIUM, Console
from tests.support.server import ServerProcess, start_server

EVENTS_PER_SECOND = 1_000
BATCH = 100
STEPS = 3
"""Sent, received and acked: the events of one message. What is acked is gone, so the store stays small."""
LIMIT_BYTES = 150_000_000
MEGABYTE = 1_000_000


class Sample(NamedTuple):
    """The page after its garbage was collected, and the process that it lives in."""

    seconds: float
    events: int
    """What the server was made to journal so far."""
    heap_bytes: int
    node_count: int
    private_bytes: int
    """What the process has for itself."""
    proportional_bytes: int
    """The same, with its share of what it has in common with other processes, the program's code for the most part."""
    resident_bytes: int
    """The same, with all that it has in common with others."""
    shown: str
    """What the page says of itself."""

    def __str__(self) -> str:
        sizes = (self.heap_bytes, self.private_bytes, self.proportional_bytes, self.resident_bytes)
        heap, private, proportional, resident = (f"{size / MEGABYTE:.1f} MB" for size in sizes)
        return (
            f"{self.seconds:7.1f} s  {self.events:>9,} events  heap {heap}  {self.node_count:,} nodes"
            f"  process {private} private, {proportional} proportional, {resident} resident  {self.shown}"
        )


class Load:
    """Sends, receives and acks messages of one queue at an even pace, until the block ends."""

    def __init__(self, server: ServerProcess, queue: str) -> None:
        self.events = 0
        self.error: Exception | None = None
        self._session = server.session
        self._url = f"{server.url}/courier/v1/tenants/default/queues/{queue}"
        self._ended = threading.Event()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            while not self._ended.wait(begun + self.events / EVENTS_PER_SECOND - time.monotonic()):
                self._turn()
        except (requests.RequestException, LookupError) as error:
            self.error = error

    def _turn(self) -> None:
        draft = {"json": {"order": self.events, "customer": "acme"}, "attributes": {"region": "eu"}}
        self._call("messages", {"messages": [draft] * BATCH})
        self.events += BATCH
        leases = self._call("receive", {"limit": BATCH})["leases"]
        self.events += len(leases)
        self._call("ack", {"receipts": [lease["receipt"] for lease in leases]})
        self.events += len(leases)

    def _call(self, verb: str, body: Any) -> Any:
        answer = self._session.post(f"{self._url}/{verb}", json=body, timeout=60)
        answer.raise_for_status()
        return answer.json()


class Watched:
    """A page whose memory is read."""

    def __init__(self, browser: Browser, page: Page) -> None:
        self._page = page
        self._of_page: CDPSession = page.context.new_cdp_session(page)
        self._of_browser = browser.new_browser_cdp_session()
        self._of_page.send("Performance.enable")

    def sample(self, seconds: float, events: int) -> Sample:
        self._of_page.send("HeapProfiler.collectGarbage")
        metrics = {one["name"]: one["value"] for one in self._of_page.send("Performance.getMetrics")["metrics"]}
        processes = self._of_browser.send("SystemInfo.getProcessInfo")["processInfo"]
        sizes = [_sizes(int(one["id"])) for one in processes if one["type"] == "renderer"]
        largest = max(sizes, key=lambda size: size["Pss"])
        return Sample(
            seconds=seconds,
            events=events,
            heap_bytes=int(metrics["JSHeapUsedSize"]),
            node_count=int(metrics["Nodes"]),
            private_bytes=largest["Private_Dirty"] + largest["Private_Clean"],
            proportional_bytes=largest["Pss"],
            resident_bytes=largest["Rss"],
            shown=self._page.get_by_role("status").filter(has_text="shown").inner_text().strip(),
        )


def _sizes(process: int) -> dict[str, int]:
    """What the kernel says of a process's memory, in bytes."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(size.split()[0]) * 1_024 for name, _, size in (line.partition(":") for line in lines)}


def watch_tail(server: ServerProcess, browser: Browser, *, seconds: float, every: float) -> Iterator[Sample]:
    """Samples of a page that shows the tail for so long, from when it first shows an event."""
    with contextlib.closing(browser.new_context()) as context:
        page = context.new_page()
        console = Console(page, server).sign_in()
        load = Load(server, console.queue("busy"))
        console.open("tail")
        watched = Watched(browser, page)
        with load.running():
            expect(page.get_by_role("log")).to_be_visible()
            begun = time.monotonic()
            yield watched.sample(0, load.events)
            while (past := time.monotonic() - begun) < seconds and load.error is None:
                page.wait_for_timeout(min(every, seconds - past) * 1_000)
                yield watched.sample(time.monotonic() - begun, load.events)


def main(*, seconds: float = 3_600, every: float = 30) -> None:
    """Print a sample each `every` seconds, and the highest ones at the end; exit with 1 above 150 MB."""
    expect.set_options(timeout=60_000)
    samples = []
    with (
        tempfile.TemporaryDirectory(prefix="courier-tail-") as directory,
        start_server(Path(directory)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for sample in watch_tail(server, browser, seconds=seconds, every=every):
            samples.append(sample)
            tell(str(sample))
        browser.close()
    heap = max(sample.heap_bytes for sample in samples)
    proportional = max(sample.proportional_bytes for sample in samples)
    rate = (samples[-1].events - samples[0].events) / (samples[-1].seconds - samples[0].seconds)
    tell(f"{rate:,.0f} events/s; most: heap {heap / MEGABYTE:.1f} MB, process {proportional / MEGABYTE:.1f} MB")
    sys.exit(proportional > LIMIT_BYTES)


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    cyclopts.run(main)
