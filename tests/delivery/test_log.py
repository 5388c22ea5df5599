"""The delivery log, from memory and from the journal."""

import pytest

from couriermq.core.errors import Invalid
from couriermq.core.model import Listener
from couriermq.delivery import Outcome
from couriermq.delivery.log import RECENT_COUNT
from tests.delivery.conftest import Post
from tests.support.receiver import Receiver

COUNT = RECENT_COUNT + 30


async def logged(post: Post, receiver: Receiver) -> Listener:
    """A listener with more attempts than memory keeps, among others' business."""
    queue, other = await post.queue(), await post.queue("other")
    listener = await post.listen(queue, receiver.url, ordered=True)
    for number in range(COUNT):
        await post.send(queue, b"%d" % number)
        await post.send(other, b"noise")
    await post.delivered(listener, COUNT)
    await post.attempts(listener, RECENT_COUNT)
    return listener


async def test_pages_lead_through_the_whole_log_newest_first(post: Post, receiver: Receiver) -> None:
    listener = await logged(post, receiver)
    seqs, before, sizes = [], None, []
    while True:
        page = await post.deliveries.log_page(listener, limit=17, before=before)
        seqs += [line.seq for line in page.attempts]
        sizes.append(len(page.attempts))
        before = page.next
        if before is None:
            break
    assert len(seqs) == len(set(seqs)) == COUNT
    assert seqs == sorted(seqs, reverse=True)
    assert sizes[0] == 17


async def test_memory_and_journal_say_the_same(post: Post, receiver: Receiver) -> None:
    listener = await logged(post, receiver)
    quick = await post.deliveries.log(listener, limit=10)
    post.deliveries._log.forget(listener)
    assert await post.deliveries.log(listener, limit=10) == quick


async def test_a_listener_that_has_got_nothing_has_an_empty_log(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    page = await post.deliveries.log_page(listener)
    assert (page.attempts, page.next) == ([], None)


async def test_an_attempt_whose_end_nobody_saw_is_unknown(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.deliveries.pause(await post.listen(queue, receiver.url), principal="test")
    await post.send(queue, b"hello")
    outbox = post.catalog.outbox(listener)
    await post.broker.receive(outbox, principal="a server that was killed")
    post.clock.advance(ms=outbox.settings.lease_ms)
    await post.waiting(listener)
    (line,) = await post.deliveries.log(listener)
    assert (line.verdict, line.attempt, line.status) == (Outcome.UNKNOWN, 1, None)


@pytest.mark.parametrize("before", ["", "x", "o", "p1-2", "o1-2-3", "p1-2-x", "o-1", "o" + "9" * 30])
async def test_a_cursor_that_no_page_ended_with_is_refused(post: Post, receiver: Receiver, before: str) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    with pytest.raises(Invalid):
        await post.deliveries.log(listener, before=before)
