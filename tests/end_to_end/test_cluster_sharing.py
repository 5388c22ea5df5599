"""Two nodes share the work: each listener is one node's, one seals the journal, cursors and health are common."""

import contextlib
import functools
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import SystemClock
from couriermq.core.duties import ARCHIVE
from couriermq.core.errors import CursorNotFound
from tests.delivery.conftest import Post
from tests.support.eventually import eventually
from tests.support.inprocess import InProcess, courier_app
from tests.support.postgres import shared_cluster
from tests.support.receiver import answer, receiving

pytestmark = pytest.mark.slow

LISTENERS = 12


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[InProcess, InProcess]]:
    """Two whole Couriers on one store, with an archive that both reach; each has a half of the listeners' duties."""
    settings: dict[str, Any] = {
        "store": shared_cluster().store_url(tmp_path),
        "archive": str(tmp_path / "archive"),
        "archive_segment_ms": 100,
        "delivery_allow": ("127.0.0.0/8",),
        "clock": SystemClock(),
    }
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(courier_app(tmp_path, data=tmp_path / "one", **settings))
        other = await stack.enter_async_context(courier_app(tmp_path, data=tmp_path / "other", **settings))
        await eventually(lambda: all(len(app.services.deliveries._dispatcher._held) > 10 for app in (one, other)))
        yield one, other
    shared_cluster().empty(tmp_path)


def owners(pair: tuple[InProcess, InProcess], listener: Any) -> list[InProcess]:
    return [app for app in pair if app.services.deliveries._dispatcher.is_ours(listener)]


async def test_each_listener_is_delivered_to_by_one_node_and_the_listeners_are_spread(
    pair: tuple[InProcess, InProcess],
) -> None:
    one, other = (Post(app) for app in pair)
    async with receiving() as receiver:
        queue = await one.queue()
        listeners = [await one.listen(queue, receiver.url, f"l{number}") for number in range(LISTENERS)]
        shares = Counter(id(app) for listener in listeners for app in owners(pair, listener))
        assert sum(shares.values()) == LISTENERS
        assert len(shares) == 2
        await other.send(queue, b"hello", b"again")
        for listener in listeners:
            await eventually(functools.partial(_acked, one, listener, 2))
        assert len(receiver.requests) == 2 * LISTENERS
        (line, _) = await one.deliveries.log(listeners[0])
        assert (await other.deliveries.log(listeners[0]))[0] == line


async def _acked(post: Post, listener: Any, count: int) -> bool:
    return (await post.waiting(listener)).acked_count == count


async def test_a_node_that_goes_leaves_its_listeners_to_the_others(pair: tuple[InProcess, InProcess]) -> None:
    one, other = (Post(app) for app in pair)
    async with receiving() as receiver:
        queue = await one.queue()
        listeners = [await one.listen(queue, receiver.url, f"l{number}") for number in range(LISTENERS)]
        pair[0].store.resign()
        assert not any(pair[0] in owners(pair, listener) for listener in listeners)
        await other.send(queue, b"hello")
        await eventually(lambda: len(receiver.requests) == LISTENERS)
        assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


async def test_every_node_knows_how_a_listener_has_been_doing(pair: tuple[InProcess, InProcess]) -> None:
    posts = [Post(app) for app in pair]
    async with receiving(answer(410), answer(200)) as receiver:
        queue = await posts[0].queue()
        listener = await posts[0].listen(queue, receiver.url)
        (owner,) = owners(pair, listener)
        stranger = posts[0] if owner is pair[1] else posts[1]
        await stranger.send(queue, b"refused")
        await eventually(lambda: stranger.now(listener).state == "disabled")
        await eventually(lambda: stranger.health(listener).failure_count == 1)
        await stranger.deliveries.resume(stranger.now(listener), principal="test")
        await eventually(lambda: Post(owner).health(listener).failure_run == 0)
        await stranger.deliveries.replay(stranger.now(listener), message_ids=[_first_id(receiver)], principal="test")
        # Once or twice: what was refused may have come again by itself before it was asked for.
        await eventually(
            lambda: 1 <= stranger.health(listener).success_count == Post(owner).health(listener).success_count
        )


def _first_id(receiver: Any) -> str:
    return str(receiver.requests[0].headers["webhook-id"])


async def test_a_cursor_is_the_same_on_every_node_and_never_goes_back(pair: tuple[InProcess, InProcess]) -> None:
    one, other = (app.services.cursors for app in pair)
    await one.advance("spark", 5)
    await eventually(lambda: other.lowest() == 5)
    await one.advance("spark", 7)
    assert (await other.advance("spark", 6)).offset == 7
    await other.delete("spark")
    await eventually(lambda: one.lowest() is None)
    with pytest.raises(CursorNotFound):
        await one.delete("spark")


async def test_what_one_node_has_sealed_every_node_can_read_and_another_goes_on_sealing(
    pair: tuple[InProcess, InProcess],
) -> None:
    sealers = [app for app in pair if app.store.holds(ARCHIVE)]
    assert len(sealers) == 1
    (reader,) = (app for app in pair if app not in sealers)
    post = Post(reader)
    await post.send(await post.queue(), b"hello")

    async def unsealed() -> int:
        return sum(span.next - span.oldest for span in (await reader.store.spans()).values())

    await eventually(unsealed, lambda count: count == 0)
    events = await post.events()
    assert [event.kind for event in events][-1] == "sent"
    sealers[0].store.resign()
    await eventually(lambda: reader.store.holds(ARCHIVE))
    await post.send(post.catalog.queue("default", "orders"), b"more")
    await eventually(unsealed, lambda count: count == 0)
    assert len(await post.events()) == len(await Post(sealers[0]).events()) > len(events)
