"""How a browser signs in, and what its cookie is good for."""

from pathlib import Path
from typing import Any

import pytest

from couriermq.auth import tokens
from couriermq.clock import FakeClock
from couriermq.core.model import HOUR, MINUTE
from tests.support.inprocess import InProcess, Response, courier_app
from tests.support.native import Tenant

SAME = {"Sec-Fetch-Site": "same-origin"}
MARK = {"Courier-Console": "1"}
WHOAMI = "/courier/v1/whoami"
TICKETS = "/courier/v1/console/tickets"
QUEUES = "/courier/v1/tenants/default/queues"


async def sign_in(app: InProcess, **options: Any) -> Response:
    return await app.request("POST", "/console/session", headers=SAME | MARK, **options)


def cookie_of(answer: Response) -> str:
    assert answer.status == 200, answer
    return answer.headers["set-cookie"].partition(";")[0]


async def call(app: InProcess, cookie: str, method: str = "GET", path: str = WHOAMI, **more: Any) -> Response:
    headers = SAME | {"Cookie": cookie} | more.pop("headers", {})
    return await app.request(method, path, token=None, headers=headers, **more)


async def test_a_token_becomes_a_cookie_that_the_native_api_takes(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        answer = await sign_in(app)
        assert answer.json()["tenant"] is None
        assert {scope["action"] for scope in answer.json()["scopes"]} >= {"send", "manage", "stats"}
        attributes = answer.headers["set-cookie"].split("; ")[1:]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} == set(attributes)
        assert answer.headers["cache-control"] == "no-store"
        me = await call(app, cookie_of(answer))
        assert (me.status, me.json()["id"]) == (200, "root")
        assert (await call(app, cookie_of(answer), path="/console/session")).json()["id"] == "root"


async def test_a_credential_signs_in_as_itself(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        made = (await app.post("/courier/v1/tenants/default/credentials", {"name": "viewer"})).json()
        answer = await sign_in(app, token=made["secret"])
        assert (answer.json()["name"], answer.json()["tenant"]) == ("viewer", "default")
        assert (await call(app, cookie_of(answer))).json()["name"] == "viewer"


async def test_a_wrong_token_gets_no_cookie_and_is_counted(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        answers = [await sign_in(app, token="wrong-token") for _ in range(25)]
        assert answers[0].status == 401
        assert answers[-1].status == 429
        assert not any("set-cookie" in answer.headers for answer in answers)


async def test_wrong_cookies_are_counted_too(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        name = cookie_of(await sign_in(app)).partition("=")[0]
        answers = [await call(app, f"{name}=wrong-token") for _ in range(25)]
        assert (answers[0].status, answers[-1].status) == (401, 429)


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}])
async def test_a_page_of_somebody_else_cannot_use_the_cookie(tmp_path: Path, headers: dict[str, str]) -> None:
    async with courier_app(tmp_path) as app:
        cookie = cookie_of(await sign_in(app))
        assert (await call(app, cookie, headers=headers)).status == 401
        assert (await call(app, cookie, "POST", QUEUES, headers=headers | MARK, json={"name": "x"})).status == 401
        assert (await app.request("POST", "/console/session", headers=headers | MARK)).status == 403


async def test_a_browser_that_names_no_site_is_known_by_its_origin(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        cookie, host = cookie_of(await sign_in(app)), {"Host": "mq.example:8080"}

        async def create(name: str, origin: dict[str, str]) -> int:
            headers = {"Cookie": cookie} | host | MARK | origin
            return (await app.request("POST", QUEUES, token=None, headers=headers, json={"name": name})).status

        assert await create("a", {"Origin": "http://mq.example:8080"}) == 201
        assert await create("b", {"Origin": "http://mq.example:9090"}) == 401
        assert await create("c", {}) == 401
        assert (await app.get(WHOAMI, token=None, headers={"Cookie": cookie} | host)).status == 200


@pytest.mark.parametrize("origin", ["http://[", "null", "", "mq.example", "http://mq.example@evil.example"])
async def test_an_origin_that_is_none_is_refused(tmp_path: Path, origin: str) -> None:
    async with courier_app(tmp_path) as app:
        headers = {"Cookie": cookie_of(await sign_in(app)), "Origin": origin, "Host": "mq.example"} | MARK
        assert (await app.request("GET", WHOAMI, token=None, headers=headers)).status == 401
        assert (await app.request("POST", QUEUES, token=None, headers=headers, json={"name": "x"})).status == 401
        assert (await app.request("POST", "/console/session", headers=headers | {"Origin": "http://["})).status == 403


async def test_what_changes_something_needs_the_mark(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        cookie = cookie_of(await sign_in(app))
        assert (await call(app, cookie, "POST", QUEUES, json={"name": "orders"})).status == 403
        assert (await call(app, cookie, "POST", QUEUES, json={"name": "orders"}, headers=MARK)).status == 201


async def test_only_the_native_api_takes_the_cookie(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        cookie = cookie_of(await sign_in(app))
        for path in ("/client/v4/accounts/default/queues", "/accounts/api/me"):
            assert (await call(app, cookie, path=path)).status == 401, path
        assert b"courier_queues" not in (await call(app, cookie, path="/metrics")).body
        assert (await app.get(WHOAMI, token=cookie.partition("=")[2])).status == 401


async def test_signing_out_ends_this_session_and_no_other(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        one, other = cookie_of(await sign_in(app)), cookie_of(await sign_in(app))
        assert one != other
        answer = await call(app, one, "DELETE", "/console/session", headers=MARK)
        assert (answer.status, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
        assert (await call(app, one)).status == 401
        assert (await call(app, other)).status == 200
        assert (await call(app, one, "DELETE", "/console/session", headers=MARK)).status == 204
    async with courier_app(tmp_path) as app:
        assert (await call(app, one)).status == 401


async def test_a_session_lives_for_twelve_hours_after_its_last_use(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        cookie = cookie_of(await sign_in(app))
        for _ in range(2):
            app.clock.advance(ms=11 * HOUR)
            assert (await call(app, cookie)).status == 200
        app.clock.advance(ms=12 * HOUR)
        assert (await call(app, cookie)).status == 401


async def test_a_session_ends_with_its_credential(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        root = Tenant(app)
        made = await root.ask("POST", "/credentials", {"name": "viewer"})
        cookie = cookie_of(await sign_in(app, token=made["secret"]))
        await root.ask("POST", f"/credentials/{made['id']}/rotate", {})
        assert (await call(app, cookie)).status == 401


async def test_tickets_and_what_they_open_end_with_the_secret_that_was_shown(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        root = Tenant(app)
        made = await root.ask("POST", "/credentials", {"name": "viewer"})
        old = cookie_of(await sign_in(app, token=made["secret"]))
        await root.ask("POST", f"/credentials/{made['id']}/rotate", {"overlap_ms": HOUR})
        by_secret = (await app.post(TICKETS, token=made["secret"])).json()["ticket"]
        by_session = (await call(app, old, "POST", TICKETS, headers=MARK)).json()["ticket"]
        cookies = [cookie_of(await sign_in(app, token=None, json={"ticket": one})) for one in (by_secret, by_session)]
        assert [(await call(app, cookie)).status for cookie in (old, *cookies)] == [200] * 3
        app.clock.advance(ms=HOUR)
        assert [(await call(app, cookie)).status for cookie in (old, *cookies)] == [401] * 3


async def test_a_credential_has_so_many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "HOLDER_COUNT", 2)
    async with courier_app(tmp_path) as app:
        cookies = [cookie_of(await sign_in(app)) for _ in range(2)]
        assert (await sign_in(app)).status == 429
        app.clock.advance(ms=12 * HOUR)
        assert (await sign_in(app)).status == 200
        assert (await call(app, cookies[0])).status == 401


async def test_a_ticket_signs_in_once_within_a_minute(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        made = (await app.post("/courier/v1/console/tickets")).json()
        assert made["path"] == f"/console#ticket={made['ticket']}"
        assert cookie_of(await sign_in(app, token=None, json={"ticket": made["ticket"]}))
        assert (await sign_in(app, token=None, json={"ticket": made["ticket"]})).status == 401
        assert (await app.get(WHOAMI, token=made["ticket"])).status == 401
        late = (await app.post("/courier/v1/console/tickets")).json()["ticket"]
        app.clock.advance(ms=MINUTE)
        assert (await sign_in(app, token=None, json={"ticket": late})).status == 401


async def test_with_tls_the_cookie_belongs_to_this_host_alone(tmp_path: Path) -> None:
    async with courier_app(tmp_path, trusted_proxies=("127.0.0.0/8",)) as app:
        headers = SAME | MARK | {"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}
        answer = await app.request("POST", "/console/session", headers=headers)
        assert answer.headers["set-cookie"].startswith("__Host-courier_")
        assert "Secure" in answer.headers["set-cookie"].split("; ")


async def test_two_stores_have_two_names_for_the_cookie(tmp_path: Path) -> None:
    async with courier_app(tmp_path / "a") as one, courier_app(tmp_path / "b", clock=FakeClock()) as other:
        names = {cookie_of(await sign_in(app)).partition("=")[0] for app in (one, other)}
        assert len(names) == 2


async def test_read_only_lets_a_browser_look_and_a_token_work(tmp_path: Path) -> None:
    async with courier_app(tmp_path, console_read_only=True) as app:
        answer = await sign_in(app)
        assert answer.json()["read_only"] is True
        cookie = cookie_of(answer)
        refused = await call(app, cookie, "POST", QUEUES, json={"name": "orders"}, headers=MARK)
        assert (refused.status, "console_read_only" in refused.json()["detail"]) == (403, True)
        assert (await call(app, cookie, path=QUEUES)).status == 200
        assert (await app.post(QUEUES, {"name": "orders"})).status == 201
        assert (await call(app, cookie, "DELETE", "/console/session", headers=MARK)).status == 204


@pytest.mark.parametrize("name", ["operations", "route"])
async def test_read_only_holds_for_queues_with_the_names_of_requests_that_look(tmp_path: Path, name: str) -> None:
    async with courier_app(tmp_path, console_read_only=True) as app:
        assert (await app.post(QUEUES, {"name": name})).status == 201
        cookie = cookie_of(await sign_in(app))
        change = {"settings": {"paused": True}}
        assert (await call(app, cookie, "PATCH", f"{QUEUES}/{name}", json=change, headers=MARK)).status == 403
        assert (await call(app, cookie, "DELETE", f"{QUEUES}/{name}", headers=MARK)).status == 403
        assert (await call(app, cookie, path=f"{QUEUES}/{name}")).status == 200
