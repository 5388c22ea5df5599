"""Proof that somebody controls a host: it serves a text that only they and Courier know."""

import asyncio
import hmac

from couriermq.core.errors import Invalid
from couriermq.core.model import SECOND
from couriermq.delivery.client import Client
from couriermq.delivery.connection import RequestFailed
from couriermq.delivery.guard import Guard, Refused, Target
from couriermq.delivery.headers import USER_AGENT

TIMEOUT_MS = 10 * SECOND
HTTPS_PORT, HTTP_PORT = 443, 80


async def answers_challenge(
    client: Client, guard: Guard, host: str, port: int, path: str, expected: str, *, tenant: str
) -> bool:
    """Whether a GET gives 200 and exactly the text, over TLS or, on a port that is not meant for it, without."""
    schemes = {HTTPS_PORT: ("https",), HTTP_PORT: ("http",)}.get(port, ("https", "http"))
    literal = f"[{host}]" if ":" in host else host
    try:
        targets = [
            guard.check_url(f"{scheme}://{literal}:{port}/{path.lstrip('/')}", tenant=tenant) for scheme in schemes
        ]
    except Invalid:
        return False
    asking = [asyncio.ensure_future(_serves(client, target, expected)) for target in targets]
    try:
        for answer in asyncio.as_completed(asking):
            if await answer:
                return True
        return False
    finally:
        for task in asking:
            task.cancel()


async def _serves(client: Client, target: Target, expected: str) -> bool:
    head = f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nUser-Agent: {USER_AGENT}\r\n\r\n"
    try:
        async with asyncio.timeout(TIMEOUT_MS / SECOND):
            response = await client.request(target, head.encode("ascii"))
    except (RequestFailed, Refused, TimeoutError):
        return False
    return response.status == 200 and hmac.compare_digest(response.body, expected.encode())
