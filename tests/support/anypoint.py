"""A caller of the Anypoint dialect in process: paths are short, answers come as they are."""

from typing import Any

import msgspec

from tests.support.inprocess import ROOT_TOKEN, InProcess, Response


class AnypointCaller:
    """Speaks for one organization and environment with one token."""

    def __init__(
        self, app: InProcess, *, token: str | None = ROOT_TOKEN, organization: str = "default", environment: str = ""
    ) -> None:
        self.app = app
        self.token = token
        self.environment = f"/organizations/{organization}/environments/{environment or organization}"
        self.region = f"{self.environment}/regions/us-east-1"

    async def broker(self, method: str, destination: str, tail: str = "", **options: Any) -> Response:
        path = f"/api/v1{self.environment}/destinations/{destination}/messages{tail}"
        return await self.app.request(method, path, token=self.token, **options)

    async def admin(self, method: str, tail: str, *, version: str = "v1", **options: Any) -> Response:
        path = f"/mq/admin/api/{version}{self.region}{tail}"
        return await self.app.request(method, path, token=self.token, **options)

    async def manage(self, method: str, tail: str, **options: Any) -> Response:
        """The admin API above its regions."""
        path = f"/mq/admin/api/v1{self.environment}{tail}"
        return await self.app.request(method, path, token=self.token, **options)

    async def stats(self, tail: str, **options: Any) -> Response:
        return await self.app.request("GET", f"/mq/stats/api/v1{self.region}{tail}", token=self.token, **options)

    # -- the things that most tests need ----------------------------------------------------------------------

    async def queue(self, name: str, **settings: Any) -> dict[str, Any]:
        made: dict[str, Any] = good(await self.admin("PUT", f"/destinations/queues/{name}", json=settings))
        return made

    async def exchange(self, name: str, *queues: str) -> None:
        good(await self.admin("PUT", f"/destinations/exchanges/{name}", json={}))
        for queue in queues:
            good(await self.admin("PUT", f"/bindings/exchanges/{name}/queues/{queue}"))

    async def rule(self, exchange: str, queue: str, *rules: dict[str, Any]) -> Response:
        path = f"/bindings/exchanges/{exchange}/queues/{queue}/rules/routing"
        return await self.admin("PUT", path, json={"routingRules": rules})

    async def publish(self, destination: str, message_id: str, body: str = "hello", **parts: Any) -> Response:
        return await self.broker("PUT", destination, f"/{message_id}", json={"body": body, **parts})

    async def consume(self, destination: str, count: int = 1, **arguments: Any) -> list[dict[str, Any]]:
        asked = {"pollingTime": 0, "batchSize": count, **arguments}
        query = "&".join(f"{name}={value}" for name, value in asked.items())
        response = await self.broker("GET", destination, f"?{query}")
        return [] if response.status == 204 else good(response)

    async def ack(self, destination: str, message: dict[str, Any]) -> Response:
        headers = message["headers"]
        return await self.broker("DELETE", destination, f"/{headers['messageId']}", json={"lockId": headers["lockId"]})

    async def nack(self, destination: str, message: dict[str, Any]) -> Response:
        headers = message["headers"]
        return await self.broker("DELETE", destination, f"/{headers['messageId']}/locks/{headers['lockId']}")


def good(response: Response) -> Any:
    assert response.status in {200, 201}, response
    return msgspec.json.decode(response.body)


def locks(messages: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Messages as the batch operations name them."""
    return [{key: one["headers"][key] for key in ("messageId", "lockId")} | more for one in messages]
