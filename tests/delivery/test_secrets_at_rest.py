"""Secrets of listeners on disk: ciphertext alone, once there is a key, and readable as long as the key is there."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from couriermq.catalog.vault import CannotUnseal, StoredListener, Vault, read_keys
from couriermq.cli.app import main
from couriermq.core.model import Listener, ListenerSettings, Secret
from couriermq.server import CannotStart
from tests.delivery.conftest import COURIER, Post
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver

KEYS = (b"whsec_", b"pathkey1", b"headerkey3", b"tokenkey4", b"livekey5")


def listener(**facts: Any) -> Listener:
    settings = ListenerSettings(headers={"X-Key": "headerkey3"}, authorization={"type": "bearer", "token": "tokenkey4"})
    own: dict[str, Any] = {
        "id": "l",
        "tenant": "t",
        "queue_id": "q",
        "name": "n",
        "outbox_id": "o",
        "dead_letters_id": "d",
    }
    secrets = (Secret(value="whsec_abc", created_at=1),)
    return Listener(**own | {"url": "https://x.example/pathkey1", "secrets": secrets, "settings": settings} | facts)


def vault(*keys: bytes) -> Vault:
    return Vault([key * 32 for key in keys], lambda count: b"n" * count)


def test_what_is_sealed_comes_back_whole() -> None:
    sealed = vault(b"a").sealed(listener())
    assert isinstance(sealed, StoredListener)
    assert (sealed.url, sealed.secrets, sealed.settings.headers) == ("https://x.example/…", (), {})
    assert vault(b"b", b"a").opened(sealed) == listener()
    assert vault(b"a").is_current(sealed.sealed)
    assert not vault(b"b", b"a").is_current(sealed.sealed)


@pytest.mark.parametrize("change", [{"id": "other"}, {"tenant": "other"}, {"sealed": b"x" * 60}])
def test_what_is_sealed_belongs_to_its_listener(change: dict[str, Any]) -> None:
    sealed = vault(b"a").sealed(listener())
    with pytest.raises(CannotUnseal):
        vault(b"a").opened(replace(sealed, **change))  # type: ignore[arg-type]


def test_without_its_key_nothing_is_read() -> None:
    sealed = vault(b"a").sealed(listener())
    assert isinstance(sealed, StoredListener)
    for other in (vault(b"b"), Vault()):
        with pytest.raises(CannotUnseal, match="secrets_key_file"):
            other.opened(sealed)


def new_key(file: Path) -> None:
    assert main(["secrets", "new-key", str(file)]) == 0


async def _listen(tmp_path: Path, receiver: Receiver, **settings: Any) -> None:
    async with courier_app(tmp_path, **COURIER, **settings) as app:
        post = Post(app)
        queue = await post.queue()
        await post.listen(
            queue,
            f"{receiver.url}/pathkey1",
            liveness_url=f"{receiver.url}/livekey5",
            headers={"X-Key": "headerkey3"},
            authorization={"type": "bearer", "token": "tokenkey4"},
        )


async def _deliver(tmp_path: Path, receiver: Receiver, **settings: Any) -> None:
    """The listener works as it was made."""
    before = len([request for request in receiver.requests if request.method == "POST"])
    async with courier_app(tmp_path, **COURIER, **settings) as app:
        post = Post(app)
        await post.send(post.catalog.queue("default", "orders"), b"hello")
        (listener,) = post.catalog.listeners()
        await post.delivered(listener, before + 1)
    request = [request for request in receiver.requests if request.method == "POST"][-1]
    assert request.headers["authorization"] == "Bearer tokenkey4"
    assert request.headers["x-key"] == "headerkey3"
    assert "webhook-signature" in request.headers


def on_disk(tmp_path: Path) -> bytes:
    """Everything in the data directory, after old pages are gone."""
    database = tmp_path / "data" / "courier.db"
    files = [file for file in (tmp_path / "data").rglob("*") if file.is_file()]
    if not database.exists():
        (database,) = [file for file in files if file.read_bytes()[:6] == b"SQLite"]
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file())


def _found(content: bytes) -> list[bytes]:
    return [key for key in KEYS if key in content]


async def test_with_a_key_the_disk_has_no_secret(tmp_path: Path, receiver: Receiver) -> None:
    key = tmp_path / "secrets.key"
    new_key(key)
    assert key.stat().st_mode & 0o777 == 0o600
    await _listen(tmp_path, receiver, secrets_key_file=key)
    await _deliver(tmp_path, receiver, secrets_key_file=key)
    assert _found(on_disk(tmp_path)) == []


async def test_secrets_in_the_clear_are_encrypted_at_the_next_start(tmp_path: Path, receiver: Receiver) -> None:
    await _listen(tmp_path, receiver)
    assert _found(on_disk(tmp_path)) == list(KEYS)
    key = tmp_path / "secrets.key"
    new_key(key)
    await _deliver(tmp_path, receiver, secrets_key_file=key)
    assert _found(on_disk(tmp_path)) == []


async def test_a_key_can_be_changed(tmp_path: Path, receiver: Receiver) -> None:
    key = tmp_path / "secrets.key"
    new_key(key)
    await _listen(tmp_path, receiver, secrets_key_file=key)
    new_key(key)
    assert len(read_keys(key)) == 2
    await _deliver(tmp_path, receiver, secrets_key_file=key)
    key.write_text(key.read_text().splitlines()[0])
    await _deliver(tmp_path, receiver, secrets_key_file=key)


async def test_a_server_without_the_key_does_not_start(tmp_path: Path, receiver: Receiver) -> None:
    key, other = tmp_path / "secrets.key", tmp_path / "other.key"
    new_key(key)
    new_key(other)
    await _listen(tmp_path, receiver, secrets_key_file=key)
    for settings in ({}, {"secrets_key_file": other}):
        with pytest.raises(CannotStart, match="secrets_key_file"):
            await _deliver(tmp_path, receiver, **settings)


@pytest.mark.parametrize("content", ["", "# only a comment\n", "not base64!\n", "c2hvcnQ=\n"])
async def test_a_file_without_keys_is_refused(tmp_path: Path, content: str) -> None:
    key = tmp_path / "secrets.key"
    key.write_text(content)
    with pytest.raises(CannotStart, match="secrets_key_file is not usable"):
        async with courier_app(tmp_path, secrets_key_file=key):
            pass


async def test_the_address_and_the_secret_of_a_worker_are_encrypted_too(tmp_path: Path) -> None:
    key, url = tmp_path / "secrets.key", "https://workers.example/pathkey1"

    async def attached(**settings: Any) -> str:
        async with courier_app(tmp_path, **COURIER, **settings) as app:
            return app.services.catalog.worker("default", "shop").url

    async with courier_app(tmp_path, **COURIER) as app:
        secret = Secret(value="whsec_workerkey6workerkey6workerkey6work", created_at=0)
        await app.services.catalog.attach_worker("default", "shop", url, secrets=(secret,), principal="test")
    assert b"workerkey6" in on_disk(tmp_path)
    new_key(key)
    assert await attached(secrets_key_file=key) == url
    content = on_disk(tmp_path)
    assert [word for word in (b"pathkey1", b"workerkey6") if word in content] == []
    new_key(key)
    assert await attached(secrets_key_file=key) == url
    key.write_text(key.read_text().splitlines()[0])
    assert await attached(secrets_key_file=key) == url
    with pytest.raises(CannotStart, match="worker shop"):
        await attached()
