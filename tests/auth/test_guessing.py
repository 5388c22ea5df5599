"""Guessing credentials: what an attacker gets, what it costs the server, and whom it disturbs."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.auth import guard
from couriermq.auth.guard import ADDRESS_BURST, PREFIX_BURST, Guard, token_attempt
from couriermq.clock import FakeClock
from couriermq.core.model import HOUR, MINUTE
from tests.support.inprocess import InProcess, courier_app

pytestmark = pytest.mark.every_engine

ATTACKER, OTHER = "198.51.100.7", "198.51.100.8"
QUEUES = "/courier/v1/tenants/default/queues"


class Dice(FakeClock):
    """Random bytes that differ from the first one on, as those of secrets do."""

    def random_bytes(self, count: int) -> bytes:
        return hashlib.shake_128(super().random_bytes(16)).digest(count)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, clock=Dice(), trusted_proxies=("10.0.0.0/8",)) as app:
        yield app


class Counts:
    """How often the server has checked a credential, and has asked the store about one."""

    def __init__(self, app: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checks = self.questions = 0
        gate, catalog = app.services.auth, app.services.catalog
        by_token, by_client, catch_up = gate.by_token, gate.by_client, catalog.catch_up

        def check_token(token: str) -> Any:
            self.checks += 1
            return by_token(token)

        def check_client(client_id: str, secret: str) -> Any:
            self.checks += 1
            return by_client(client_id, secret)

        async def ask_store() -> bool:
            self.questions += 1
            return await catch_up()

        monkeypatch.setattr(gate, "by_token", check_token)
        monkeypatch.setattr(gate, "by_client", check_client)
        monkeypatch.setattr(catalog, "catch_up", ask_store)


@pytest.fixture
def counts(app: InProcess, monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(app, monkeypatch)


async def secret_of(app: InProcess, **options: Any) -> str:
    _, secret = await app.services.catalog.create_credential("default", "shop", principal="test", **options)
    return secret


async def guess(app: InProcess, token: str, **options: Any) -> int:
    return (await app.get(QUEUES, token=token, **({"client": ATTACKER} | options))).status


async def drain(app: InProcess, **options: Any) -> None:
    """Guess until the address is refused unchecked."""
    statuses = [await guess(app, f"{number:08}-guess", **options) for number in range(ADDRESS_BURST + 1)]
    assert statuses == [401] * ADDRESS_BURST + [429]


async def test_a_right_guess_gets_in_no_sooner_than_a_wrong_one(app: InProcess, counts: Counts) -> None:
    secret = await secret_of(app)
    await drain(app)
    checked, asked = counts.checks, counts.questions
    response = await app.get(QUEUES, token=secret, client=ATTACKER)
    assert (response.status, int(response.headers["retry-after"])) == (429, 5)
    for number in range(1_000):
        assert await guess(app, f"{number}-another") == 429
    assert (counts.checks, counts.questions) == (checked, asked), "a throttled address costs neither check nor query"
    app.clock.advance(ms=4_999)
    assert await guess(app, secret) == 429
    app.clock.advance(ms=1)
    assert await guess(app, secret) == 200


async def test_an_address_that_goes_on_guessing_is_checked_five_times_a_second_at_most(
    app: InProcess, counts: Counts
) -> None:
    await drain(app)
    checked = counts.checks
    for number in range(600):
        await guess(app, f"{number:08}-more")
        app.clock.advance(ms=100)
    assert counts.checks - checked <= 5 * 60


async def test_guessing_the_rest_of_one_token_is_refused_sooner(app: InProcess, counts: Counts) -> None:
    secret = await secret_of(app)
    begin = secret[:8]
    assert [await guess(app, f"{begin}{number}") for number in range(PREFIX_BURST)] == [401] * PREFIX_BURST
    checked = counts.checks
    assert await guess(app, f"{begin}x") == 429
    assert await guess(app, secret) == 429, "the right one waits like the wrong ones"
    assert counts.checks == checked
    assert await guess(app, await secret_of(app)) == 200, "another token of the same address does not wait"
    assert await guess(app, secret, client=OTHER) == 200
    app.clock.advance(ms=MINUTE)
    assert await guess(app, secret) == 200


async def test_clients_that_were_right_before_work_on_beside_a_guesser(app: InProcess) -> None:
    secret = await secret_of(app)
    assert await guess(app, secret) == 200
    await drain(app)
    assert await guess(app, secret) == 200
    assert await guess(app, await secret_of(app)) == 429
    assert await guess(app, "whatever", client=OTHER) == 401


async def test_a_bad_client_that_repeats_itself_leaves_its_address_alone(app: InProcess) -> None:
    for _ in range(1_000):
        await guess(app, "a-token-that-was-deleted")
    assert await guess(app, await secret_of(app)) == 200


async def test_a_client_whose_token_has_just_ended_learns_so(app: InProcess) -> None:
    gate, catalog = app.services.auth, app.services.catalog
    made, _ = await catalog.create_credential("default", "shop", principal="test")
    token = gate.issue_token(made, ttl_ms=HOUR)
    assert await guess(app, token) == 200
    app.clock.advance(ms=HOUR)
    await drain(app)
    statuses = {await guess(app, token) for _ in range(PREFIX_BURST * 3)}
    assert statuses == {401}, "an authentic token is no guess, however often its clients show it"


async def test_a_client_gets_its_next_token_beside_a_guesser(app: InProcess) -> None:
    made, secret = await app.services.catalog.create_credential("default", "shop", principal="test")
    form = {"client_id": made.id, "client_secret": secret}

    async def authorize(document: dict[str, str]) -> int:
        return (await app.post("/api/v1/authorize", document, token=None, client=ATTACKER)).status

    assert await authorize(form) == 200
    await drain(app)
    assert await authorize(form) == 200
    assert await authorize({"client_id": "root", "client_secret": "guess"}) == 429


async def test_secrets_of_a_client_are_guessed_no_faster_on_the_token_routes(app: InProcess, counts: Counts) -> None:
    made, secret = await app.services.catalog.create_credential("default", "shop", principal="test")
    for path in ("/api/v1/authorize", "/accounts/oauth2/token", "/accounts/api/v2/oauth2/token"):
        for number in range(PREFIX_BURST):
            await app.post(path, {"client_id": made.id, "client_secret": f"guess {number}"}, token=None, client=OTHER)
    login = {"username": made.id, "password": "guess"}
    assert (await app.post("/accounts/login", login, token=None, client=OTHER)).status == 429
    assert counts.checks <= 2 * PREFIX_BURST
    right = {"client_id": made.id, "client_secret": secret}
    assert (await app.post("/api/v1/authorize", right, token=None, client=OTHER)).status == 429
    assert (await app.post("/api/v1/authorize", right, token=None, client=ATTACKER)).status == 200


DIALECTS: list[tuple[str, dict[str, str], int]] = [
    (QUEUES, {"authorization": "Bearer {}"}, 429),
    ("/client/v4/accounts/default/queues", {"x-auth-key": "{}"}, 429),
    ("/mq/admin/api/v1/organizations/default/environments/default/clients", {"authorization": "bearer{}"}, 429),
    ("/v1/queues", {"x-api-key": "{}"}, 403),
    ("/metrics", {"authorization": "Bearer {}"}, 429),
]


@pytest.mark.parametrize(("path", "headers", "status"), DIALECTS)
async def test_every_dialect_checks_nothing_while_an_address_is_throttled(
    app: InProcess, counts: Counts, path: str, headers: dict[str, str], status: int
) -> None:
    secret = await secret_of(app)
    await drain(app)
    checked, asked = counts.checks, counts.questions
    shown = {name: value.format(secret) for name, value in headers.items()}
    response = await app.get(path, headers=shown, token=None, client=ATTACKER)
    assert (response.status, response.headers["retry-after"]) == (status, "5")
    assert (counts.checks, counts.questions) == (checked, asked)


async def test_the_address_comes_from_trusted_proxies_only(app: InProcess) -> None:
    await drain(app, client="10.0.0.1", headers={"x-forwarded-for": ATTACKER})
    assert await guess(app, "other", client="10.0.0.2", headers={"x-forwarded-for": f"1.2.3.4, {ATTACKER}"}) == 429
    assert await guess(app, "other", client="10.0.0.1", headers={"x-forwarded-for": OTHER}) == 401
    assert await guess(app, "other", client=OTHER, headers={"x-forwarded-for": ATTACKER}) == 401
    assert await guess(app, "other", client=ATTACKER, headers={"x-forwarded-for": OTHER}) == 429


async def test_one_ipv6_network_is_one_address(app: InProcess) -> None:
    for number in range(ADDRESS_BURST):
        assert await guess(app, f"{number:08}", client=f"2001:db8::{number:x}") == 401
    assert await guess(app, "12345678", client="2001:db8::ffff") == 429
    assert await guess(app, "12345678", client="2001:db8:0:1::1") == 401


async def test_calls_without_a_credential_are_401_and_never_cost_a_query(app: InProcess, counts: Counts) -> None:
    for _ in range(2 * ADDRESS_BURST):
        assert (await app.get(QUEUES, token=None, client=ATTACKER)).status == 401
    assert (await app.get("/v1/queues", token=None, client=ATTACKER)).status == 401
    assert (counts.checks, counts.questions) == (0, 0)
    assert await guess(app, await secret_of(app)) == 200


async def test_wrong_tokens_of_many_addresses_hardly_ever_cost_a_query(app: InProcess, counts: Counts) -> None:
    for number in range(2_000):
        assert await guess(app, f"{number:08}", client=f"203.0.{number // 250}.{number % 250}") == 401
    assert counts.questions <= guard.QUESTION_BURST


async def test_a_wrong_token_that_is_shown_again_costs_no_second_query(app: InProcess, counts: Counts) -> None:
    for number in range(10):
        await guess(app, "deleted-yesterday", client=f"203.0.113.{number}")
        await guess(app, "deleted-yesterday", client=f"203.0.113.{number}")
    assert counts.questions == 10


def test_the_memory_of_guesses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound in ("BUCKET_COUNT", "RIGHT_COUNT", "UNKNOWN_COUNT"):
        monkeypatch.setattr(guard, bound, 100)
    kept = Guard(FakeClock())
    for number in range(1_000):
        attempt = token_attempt(f"203.0.{number // 250}.{number % 250}", f"{number:08}")
        kept.count_wrong(attempt)
        kept.count_right(attempt)
        kept.may_ask(attempt)
    sizes = [len(part) for part in (kept._by_prefix, kept._by_address, kept._right, kept._unknown)]
    assert max(sizes) <= 100
