"""Changes that must not overlap."""

import asyncio

from couriermq.web.call import Call, Handler, Reply


class Turn:
    """Lets changes of the control plane through one at a time: each reads what it changes, and none must be lost."""

    def __init__(self) -> None:
        self._changing = asyncio.Lock()

    def __call__(self, handler: Handler) -> Handler:
        async def alone(call: Call) -> Reply:
            async with self._changing:
                return await handler(call)

        return alone
