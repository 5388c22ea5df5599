"""One message as every dialect shows it."""

import shlex
from pathlib import Path
from urllib.parse import quote

from tests.support.inprocess import courier_app
from tests.support.native import Tenant

DIALECTS = {"native", "cloudflare", "anypoint", "discue"}


async def test_each_dialect_shows_a_message_in_its_own_words(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        orders = await Tenant(app).queue("orders")
        sent = await orders.send("hello", attributes={"colour": "red"})
        found = await orders.ask("GET", f"/messages/{sent['id']}/dialects")
        shown = found["dialects"]
        assert set(shown) == set(found["curl"]) == DIALECTS
        assert shown["native"]["attributes"] == {"colour": "red"}
        assert (shown["cloudflare"]["body"], shown["cloudflare"]["lease_id"]) == ("hello", "<receipt>")
        assert shown["cloudflare"]["metadata"]["colour"] == "red"
        assert shown["anypoint"]["headers"]["messageId"] == sent["id"]
        assert shown["discue"]["data"] == "hello"
        assert (await orders.ask("GET", "/counters"))["leased_count"] == 0


async def test_commands_have_the_address_and_no_secret(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        orders = await Tenant(app).queue("orders")
        sent = await orders.send(id="it's $(rm)")
        path = f"/messages/{quote(sent['id'])}/dialects"
        answer = await orders.call("GET", path, headers={"Host": "mq.example"})
        assert b"root-token" not in answer.body
        for dialect, commands in answer.json()["curl"].items():
            for line in commands:
                words = shlex.split(line["command"])
                assert words[0] == "curl", dialect
                assert any(word.startswith("http://mq.example/") for word in words)
                assert "$COURIER_TOKEN" in line["command"]
                assert "$(" not in line["command"].replace("'", "")


async def test_the_line_that_reads_a_message_reads_it(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        orders = await Tenant(app).queue("a/b")
        sent = await orders.send()
        found = await orders.ask("GET", f"/messages/{sent['id']}/dialects", headers={"Host": "x"})
        for dialect in ("native", "discue"):
            line = next(one["command"] for one in found["curl"][dialect] if one["verb"] == "read")
            url = next(word for word in shlex.split(line) if word.startswith("http://x"))
            headers = {"X-API-KEY": "root-token"} if dialect == "discue" else {}
            answer = await app.get(url.removeprefix("http://x"), headers=headers)
            assert answer.status == 200, (dialect, answer)


async def test_a_very_large_body_is_cut(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        orders = await Tenant(app).queue("orders")
        sent = await orders.ask("POST", "/messages", {"json": "x" * 300_000})
        found = await orders.call("GET", f"/messages/{sent['id']}/dialects")
        assert found.json()["body_truncated"] is True
        assert len(found.body) < 100_000


async def test_bodies_are_for_those_who_may_browse(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        root = Tenant(app)
        sent = await (await root.queue("orders")).send()
        watcher = await root.with_scopes(("stats", ["*"]))
        assert (await watcher.refused("GET", f"/queues/orders/messages/{sent['id']}/dialects"))["status"] == 403
