"""The size of a JSON body is that of its compact form, whatever its sender's spelling."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.dialects.cloudflare.limits import BATCH_BYTES, MESSAGE_BYTES
from tests.support.cloudflare import Queue, cloudflare_account, refused


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


def sized(size: int, character: str = "ü") -> list[str]:
    """A value whose compact form has this many bytes."""
    count, rest = divmod(size - len('[""]'), len(character.encode()))
    return [character * count + "x" * rest]


async def pushed(queue: Queue, value: Any, **spelling: Any) -> Any:
    body = b'{"body": %b}' % json.dumps(value, **spelling).encode()
    return await queue.call("POST", "/messages", body=body)


async def test_a_body_of_the_largest_size_is_taken_in_any_spelling(queue: Queue) -> None:
    value = sized(MESSAGE_BYTES)
    for spelling in ({"ensure_ascii": True}, {"ensure_ascii": False}, {"indent": 3_000}):
        assert (await pushed(queue, value, **spelling)).status == 200, spelling
        assert json.loads((await queue.pull_one())["body"]) == value


async def test_a_byte_more_is_refused_in_any_spelling(queue: Queue) -> None:
    value = sized(MESSAGE_BYTES + 1)
    for spelling in ({"ensure_ascii": True}, {"ensure_ascii": False, "separators": (",", ":")}, {"indent": 3_000}):
        status, code, sentence = refused(await pushed(queue, value, **spelling))
        assert (status, code) == (400, 10204), spelling
        assert sentence == f"the message is {MESSAGE_BYTES + 1} bytes; at most {MESSAGE_BYTES} are allowed"


async def test_a_body_that_is_small_enough_as_it_stands_is_kept_as_it_stands(queue: Queue) -> None:
    await queue.call("POST", "/messages", body=rb'{"body": { "a" : "\u00fc" }}')
    assert (await queue.pull_one())["body"] == r'{ "a" : "\u00fc" }'


async def test_a_batch_is_measured_in_the_same_way(queue: Queue) -> None:
    values = [sized(BATCH_BYTES // 4) for _ in range(4)]
    body = json.dumps({"messages": [{"body": value} for value in values]}, indent=2).encode()
    assert (await queue.call("POST", "/messages/batch", body=body)).status == 200
    assert [json.loads(one["body"]) for one in await queue.pull()] == values
    values[0] = sized(BATCH_BYTES // 4 + 1)
    body = json.dumps({"messages": [{"body": value} for value in values]}, indent=2).encode()
    assert refused(await queue.call("POST", "/messages/batch", body=body))[:2] == (400, 10205)
