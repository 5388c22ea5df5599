"""Who gets in, for how long and how often."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.auth.gate import Gate, open_gate
from couriermq.catalog import Catalog
from couriermq.clock import FakeClock
from couriermq.core.errors import CredentialEnded, TooManyRequests, Unauthenticated
from couriermq.core.model import Action, Credential, Scope
from couriermq.web.call import ANONYMOUS, Call
from tests.support.inprocess import ROOT_TOKEN, InProcess, courier_app

HOUR = 3_600_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def app(tmp_path: Path, clock: FakeClock) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, clock=clock, dialects=()) as app:
        yield app


@pytest.fixture
def gate(app: InProcess) -> Gate:
    return app.services.auth


@pytest.fixture
def catalog(app: InProcess) -> Catalog:
    return app.services.catalog


async def credential(catalog: Catalog, **options: Any) -> tuple[Credential, str]:
    return await catalog.create_credential("default", "reader", principal="root", **options)


def call_with(app: InProcess, *headers: tuple[bytes, bytes]) -> Call:
    return Call(
        method="GET",
        path="/",
        raw_query=b"",
        raw_headers=headers,
        body=b"",
        params={},
        services=app.services,
        principal=ANONYMOUS,
    )


# -- secrets --------------------------------------------------------------------------------------------------


def test_the_root_token_opens_everything(gate: Gate) -> None:
    assert gate.by_token(ROOT_TOKEN).is_root


def test_root_is_an_oauth_client_too(gate: Gate) -> None:
    assert gate.by_client("root", ROOT_TOKEN).is_root


async def test_a_secret_stands_for_its_credential(gate: Gate, catalog: Catalog) -> None:
    made, secret = await credential(catalog, scopes=[Scope(Action.SEND, ("orders",))])
    principal = gate.by_token(secret)
    assert (principal.id, principal.tenant, principal.scopes) == (made.id, "default", made.scopes)
    assert gate.by_client(made.id, secret) == principal


@pytest.mark.parametrize("token", ["", "wrong", "root", "ü", "a" * 10_000, "AAAA.BBBB", "="])
def test_a_made_up_token_is_refused(gate: Gate, token: str) -> None:
    with pytest.raises(Unauthenticated):
        gate.by_token(token)


async def test_a_client_needs_its_own_secret(gate: Gate, catalog: Catalog) -> None:
    one, _ = await credential(catalog)
    _, other_secret = await credential(catalog)
    for client_id, secret in [(one.id, other_secret), ("root", other_secret), ("nobody", other_secret), (one.id, "")]:
        with pytest.raises(Unauthenticated):
            gate.by_client(client_id, secret)


async def test_a_disabled_credential_is_refused(gate: Gate, catalog: Catalog) -> None:
    made, secret = await credential(catalog)
    await catalog.change_credential(made, enabled=False, principal="root")
    with pytest.raises(Unauthenticated, match="disabled"):
        gate.by_token(secret)


async def test_a_credential_is_good_until_the_instant_it_expires(
    gate: Gate, catalog: Catalog, clock: FakeClock
) -> None:
    _, secret = await credential(catalog, expires_at=clock.now() + 1_000)
    clock.advance(ms=999)
    gate.by_token(secret)
    clock.advance(ms=1)
    with pytest.raises(Unauthenticated, match="expired"):
        gate.by_token(secret)


async def test_a_rotated_secret_is_refused_and_the_new_one_accepted(gate: Gate, catalog: Catalog) -> None:
    made, old = await credential(catalog)
    _, new = await catalog.rotate_credential(made, principal="root")
    assert gate.by_token(new).id == made.id
    with pytest.raises(Unauthenticated):
        gate.by_token(old)


async def test_in_an_overlap_both_secrets_and_their_tokens_work(gate: Gate, catalog: Catalog, clock: FakeClock) -> None:
    made, old = await credential(catalog)
    old_token = gate.issue_token(made, ttl_ms=10 * HOUR, sliding=True, secret=old)
    rotated, new = await catalog.rotate_credential(made, overlap_ms=HOUR, principal="root")
    late_token = gate.issue_token(made, ttl_ms=10 * HOUR, sliding=True, secret=old)
    new_token = gate.issue_token(made, ttl_ms=10 * HOUR, sliding=True, secret=new)
    assert rotated.old_secret_expires_at == clock.now() + HOUR
    clock.advance(ms=HOUR - 1)
    for secret in (old, new):
        assert gate.by_token(secret).id == gate.by_client(made.id, secret).id == made.id
    for token in (old_token, late_token, new_token):
        assert gate.by_token(token).id == made.id
    clock.advance(ms=1)
    with pytest.raises(CredentialEnded):
        gate.by_token(old)
    with pytest.raises(Unauthenticated):
        gate.by_client(made.id, old)
    for token in (old_token, late_token):
        with pytest.raises(Unauthenticated):
            gate.by_token(token)
    assert gate.by_token(new).id == gate.by_token(new_token).id == made.id


async def test_a_rotation_without_an_overlap_ends_every_older_secret(gate: Gate, catalog: Catalog) -> None:
    made, first = await credential(catalog)
    _, second = await catalog.rotate_credential(made, overlap_ms=HOUR, principal="root")
    _, third = await catalog.rotate_credential(made, principal="root")
    assert gate.by_token(third).id == made.id
    for secret in (first, second):
        with pytest.raises(Unauthenticated):
            gate.by_token(secret)


async def test_a_later_rotation_does_not_prolong_an_older_secret(
    gate: Gate, catalog: Catalog, clock: FakeClock
) -> None:
    made, first = await credential(catalog)
    _, second = await catalog.rotate_credential(made, overlap_ms=HOUR, principal="root")
    await catalog.rotate_credential(made, overlap_ms=5 * HOUR, principal="root")
    clock.advance(ms=HOUR)
    assert gate.by_token(second).id == made.id
    with pytest.raises(Unauthenticated):
        gate.by_token(first)


async def test_old_secrets_are_few_and_end_with_their_credential(gate: Gate, catalog: Catalog) -> None:
    made, first = await credential(catalog)
    secrets = [first]
    for _ in range(10):
        made, secret = await catalog.rotate_credential(made, overlap_ms=HOUR, principal="root")
        secrets.append(secret)
    assert len(made.old_secrets) == 5
    gate.by_token(secrets[-2])
    with pytest.raises(Unauthenticated):
        gate.by_token(secrets[0])
    await catalog.delete_credential(made, principal="root")
    for secret in secrets:
        with pytest.raises(Unauthenticated):
            gate.by_token(secret)


async def test_an_overlap_survives_a_restart(tmp_path: Path, clock: FakeClock) -> None:
    async with courier_app(tmp_path, clock=clock, dialects=()) as app:
        made, old = await credential(app.services.catalog)
        _, new = await app.services.catalog.rotate_credential(made, overlap_ms=HOUR, principal="root")
    async with courier_app(tmp_path, clock=clock, dialects=()) as app:
        assert app.services.auth.by_token(old) == app.services.auth.by_token(new)


async def test_new_scopes_hold_from_the_next_request_on(gate: Gate, catalog: Catalog) -> None:
    made, secret = await credential(catalog)
    gate.by_token(secret)
    await catalog.change_credential(made, scopes=(Scope(Action.SEND),), principal="root")
    assert gate.by_token(secret).scopes == (Scope(Action.SEND),)


@pytest.mark.parametrize("value", [b"Bearer %b", b"bearer %b", b"BEARER  %b"])
def test_a_bearer_may_be_spelt_in_any_case(app: InProcess, gate: Gate, value: bytes) -> None:
    assert gate.bearer(call_with(app, (b"authorization", value % ROOT_TOKEN.encode()))).is_root


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Basic cm9vdA==")], [(b"authorization", b"Bearer")]])
def test_without_a_bearer_nobody_gets_in(app: InProcess, gate: Gate, headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Unauthenticated):
        gate.bearer(call_with(app, *headers))


# -- how often ------------------------------------------------------------------------------------------------


async def test_a_credential_has_its_own_limit_and_learns_when_to_come_back(
    gate: Gate, catalog: Catalog, clock: FakeClock
) -> None:
    _, limited = await credential(catalog, requests_per_second=2.0)
    _, free = await credential(catalog)
    gate.by_token(limited)
    gate.by_token(limited)
    with pytest.raises(TooManyRequests) as caught:
        gate.by_token(limited)
    gate.by_token(free)
    clock.advance(ms=caught.value.retry_after_ms)
    gate.by_token(limited)


async def test_a_limit_below_one_a_second_still_lets_the_first_through(
    gate: Gate, catalog: Catalog, clock: FakeClock
) -> None:
    _, secret = await credential(catalog, requests_per_second=0.1)
    gate.by_token(secret)
    with pytest.raises(TooManyRequests) as caught:
        gate.by_token(secret)
    assert caught.value.retry_after_ms == 10_000


# -- access tokens --------------------------------------------------------------------------------------------


async def test_an_access_token_stands_for_its_holder(gate: Gate, catalog: Catalog) -> None:
    made, secret = await credential(catalog)
    token = gate.issue_token(gate.by_token(secret), ttl_ms=HOUR)
    assert gate.by_token(token) == gate.by_token(secret)
    assert gate.by_token(gate.issue_token(made, ttl_ms=HOUR)).id == made.id


def test_root_can_hold_an_access_token(gate: Gate) -> None:
    assert gate.by_token(gate.issue_token(gate.by_token(ROOT_TOKEN), ttl_ms=HOUR)).is_root


async def test_a_holder_gets_the_same_token_while_it_lives_and_another_after(
    gate: Gate, catalog: Catalog, clock: FakeClock
) -> None:
    made, _ = await credential(catalog)
    first = gate.issue_token(made, ttl_ms=HOUR)
    clock.advance(ms=HOUR - 1)
    assert gate.issue_token(made, ttl_ms=HOUR) == first
    clock.advance(ms=1)
    assert gate.issue_token(made, ttl_ms=HOUR) != first


async def test_holders_do_not_share_a_token(gate: Gate, catalog: Catalog) -> None:
    one, _ = await credential(catalog)
    other, _ = await credential(catalog)
    assert gate.issue_token(one, ttl_ms=HOUR) != gate.issue_token(other, ttl_ms=HOUR)


async def test_a_token_ends_at_its_time_however_much_it_is_used(gate: Gate, catalog: Catalog, clock: FakeClock) -> None:
    made, _ = await credential(catalog)
    token = gate.issue_token(made, ttl_ms=HOUR)
    for _ in range(3):
        gate.by_token(token)
        clock.advance(ms=HOUR // 3)
    with pytest.raises(Unauthenticated):
        gate.by_token(token)


async def test_a_sliding_token_lives_as_long_as_it_is_used(gate: Gate, catalog: Catalog, clock: FakeClock) -> None:
    made, _ = await credential(catalog)
    token = gate.issue_token(made, ttl_ms=HOUR, sliding=True)
    for _ in range(5):
        clock.advance(ms=HOUR - 1)
        gate.by_token(token)
    clock.advance(ms=HOUR)
    with pytest.raises(Unauthenticated):
        gate.by_token(token)


@pytest.mark.parametrize("fate", ["disabled", "rotated", "deleted"])
async def test_a_token_dies_with_its_credential(gate: Gate, catalog: Catalog, fate: str) -> None:
    made, _ = await credential(catalog)
    token = gate.issue_token(made, ttl_ms=HOUR)
    gate.by_token(token)
    match fate:
        case "disabled":
            await catalog.change_credential(made, enabled=False, principal="root")
        case "rotated":
            await catalog.rotate_credential(made, principal="root")
        case "deleted":
            await catalog.delete_credential(made, principal="root")
    with pytest.raises(Unauthenticated):
        gate.by_token(token)


async def test_no_character_of_a_token_can_be_changed(gate: Gate, catalog: Catalog) -> None:
    made, _ = await credential(catalog)
    token = gate.issue_token(made, ttl_ms=HOUR)
    for index, letter in enumerate(token):
        forged = token[:index] + ("A" if letter != "A" else "B") + token[index + 1 :]
        with pytest.raises(Unauthenticated):
            gate.by_token(forged)


# -- over a restart -------------------------------------------------------------------------------------------


async def test_a_token_survives_a_restart_and_so_does_what_its_use_has_earned(tmp_path: Path, clock: FakeClock) -> None:
    async with courier_app(tmp_path, clock=clock, dialects=()) as app:
        made, _ = await credential(app.services.catalog)
        token = app.services.auth.issue_token(made, ttl_ms=HOUR, sliding=True)
        clock.advance(ms=HOUR - 1)
        app.services.auth.by_token(token)
    clock.advance(ms=HOUR - 1)
    async with courier_app(tmp_path, clock=clock, dialects=()) as app:
        assert app.services.auth.by_token(token).id == made.id
        assert app.services.auth.issue_token(made, ttl_ms=HOUR, sliding=True) == token


async def test_a_token_that_was_never_saved_still_lives_its_first_span(
    app: InProcess, gate: Gate, catalog: Catalog, clock: FakeClock
) -> None:
    made, _ = await credential(catalog)
    token = gate.issue_token(made, ttl_ms=HOUR, sliding=True)
    after_a_crash, _ = await open_gate(catalog, clock, root_token=ROOT_TOKEN)
    clock.advance(ms=HOUR - 1)
    assert after_a_crash.by_token(token).id == made.id


async def test_saving_does_nothing_when_nothing_has_changed(gate: Gate, catalog: Catalog) -> None:
    made, _ = await credential(catalog)
    gate.issue_token(made, ttl_ms=HOUR)
    await gate.save_tokens()
    saved = catalog.record("courier", "default", "tokens")
    await gate.save_tokens()
    assert catalog.record("courier", "default", "tokens") is saved


async def test_what_is_kept_holds_neither_tokens_nor_secrets(app: InProcess, gate: Gate, catalog: Catalog) -> None:
    made, secret = await credential(catalog)
    token = gate.issue_token(made, ttl_ms=HOUR)
    await gate.save_tokens()
    kept = b"".join(record.document for record in await app.store.load_records())
    for private in (secret, token, ROOT_TOKEN):
        assert private.encode() not in kept


# -- the first start ------------------------------------------------------------------------------------------


async def test_the_first_start_makes_a_root_token_and_later_starts_know_it(tmp_path: Path) -> None:
    async with courier_app(tmp_path, dialects=(), root_token=None) as app:
        minted = app.node.minted_token
        assert minted is not None
        assert app.services.auth.by_token(minted).is_root
    async with courier_app(tmp_path, dialects=(), root_token=None) as app:
        assert app.node.minted_token is None
        assert app.services.auth.by_token(minted).is_root


async def test_a_root_token_that_is_set_takes_the_place_of_the_minted_one(tmp_path: Path) -> None:
    async with courier_app(tmp_path, dialects=(), root_token=None) as app:
        minted = app.node.minted_token
        assert minted is not None
    async with courier_app(tmp_path, dialects=(), root_token="chosen-token") as app:
        assert app.services.auth.by_token("chosen-token").is_root
        with pytest.raises(Unauthenticated):
            app.services.auth.by_token(minted)


async def test_a_root_token_that_is_set_is_kept_nowhere(tmp_path: Path) -> None:
    async with courier_app(tmp_path, dialects=()) as app:
        records = await app.store.load_records()
        assert all(b"root_hash" not in record.document for record in records)
