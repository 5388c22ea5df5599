"""TLS as clients and operators meet it: counted handshakes, modern suites, certificates renewed while it runs."""

import contextlib
import datetime
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
PATIENCE_SECONDS = 20
KEY = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def write_certificate(folder: Path, name: str) -> None:
    """A certificate of this name and its key, for the server in `folder`."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(KEY, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    kind = serialization.PrivateFormat.PKCS8
    (folder / "key.pem").write_bytes(KEY.private_bytes(serialization.Encoding.PEM, kind, plain))
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


@contextlib.contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[ServerProcess]:
    write_certificate(folder, "first")
    files: dict[str, Any] = {"tls_cert": folder / "cert.pem", "tls_key": folder / "key.pem"}
    with start_server(folder, **files, **settings) as server:
        yield server


def trusting(**limits: object) -> ssl.SSLContext:
    """A client that takes any certificate, within these limits."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    for name, value in limits.items():
        setattr(context, name, value)
    return context


def dial(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=PATIENCE_SECONDS)


def shake(server: ServerProcess, context: ssl.SSLContext | None = None) -> ssl.SSLSocket:
    return (context or trusting()).wrap_socket(dial(server), server_hostname="localhost")


def name_of(client: ssl.SSLSocket) -> str:
    """Whose certificate the server has shown."""
    shown = client.getpeercert(binary_form=True)
    assert shown is not None
    (name,) = x509.load_der_x509_certificate(shown).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def ask(client: socket.socket) -> bytes:
    client.sendall(GET)
    return client.recv(10_000)


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


# -- handshakes -----------------------------------------------------------------------------------------------


def test_a_handshake_counts_as_a_connection_and_must_end_in_time(tmp_path: Path) -> None:
    with serving(tmp_path, max_connections=5, header_timeout_ms=1_500) as server:
        with contextlib.ExitStack() as clients:
            silent = [clients.enter_context(dial(server)) for _ in range(5)]
            with dial(server) as too_many:
                assert is_closed(too_many)
            assert [is_closed(client) for client in silent] == [True] * 5
        with shake(server) as client:
            assert ask(client).startswith(b"HTTP/1.1 200 OK")


def test_a_handshake_in_small_steps_has_no_more_time(tmp_path: Path) -> None:
    with serving(tmp_path, header_timeout_ms=500) as server, dial(server) as slow:
        slow.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        assert is_closed(slow)


def test_a_client_that_finished_its_handshake_is_counted_once(tmp_path: Path) -> None:
    with serving(tmp_path, max_connections=2) as server, shake(server) as first, shake(server) as second:
        assert (ask(first)[:12], ask(second)[:12]) == (b"HTTP/1.1 200", b"HTTP/1.1 200")


def test_a_stop_does_not_wait_for_handshakes(tmp_path: Path) -> None:
    with serving(tmp_path, header_timeout_ms=600_000, shutdown_ms=600_000) as server, dial(server), shake(server):
        assert server.stop() == 0


# -- suites ---------------------------------------------------------------------------------------------------

MODERN = ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305")
OLD = ("ECDHE-RSA-AES128-SHA256", "ECDHE-RSA-AES256-SHA", "AES128-GCM-SHA256", "AES256-SHA256", "AES128-SHA")


def test_only_ephemeral_keys_with_authenticated_encryption_are_spoken(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        for suite in MODERN:
            context = trusting(maximum_version=ssl.TLSVersion.TLSv1_2)
            context.set_ciphers(suite)
            with shake(server, context) as client:
                assert (client.version(), client.cipher()[0]) == ("TLSv1.2", suite)  # type: ignore[index]
        for suite in OLD:
            context = trusting(maximum_version=ssl.TLSVersion.TLSv1_2)
            context.set_ciphers(f"{suite}:@SECLEVEL=0")
            with pytest.raises(ssl.SSLError):
                shake(server, context)
        with shake(server) as client:
            assert client.version() == "TLSv1.3"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as server, pytest.raises(ssl.SSLError):
        shake(server, trusting(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1))


# -- renewal --------------------------------------------------------------------------------------------------


def shows(server: ServerProcess, name: str) -> bool:
    """Whether new clients are shown this certificate, before patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with shake(server) as client:
            if name_of(client) == name:
                return True
        time.sleep(0.05)  # another process acts: there is no clock of ours to move
    return False


@pytest.mark.parametrize("by_signal", [True, False], ids=["by signal", "by itself"])
def test_a_renewed_certificate_is_shown_and_open_connections_go_on(tmp_path: Path, by_signal: bool) -> None:
    with serving(tmp_path) as server, shake(server) as old:
        assert ask(old).startswith(b"HTTP/1.1 200 OK")
        write_certificate(tmp_path, "second")
        if by_signal:
            server.signal(signal.SIGHUP)
        assert shows(server, "second")
        assert ask(old).startswith(b"HTTP/1.1 200 OK")
        assert name_of(old) == "first"


def test_a_certificate_that_cannot_be_used_does_not_replace_a_good_one(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        (tmp_path / "cert.pem").write_text("half a certificate")
        server.signal(signal.SIGHUP)
        with shake(server) as client:
            assert name_of(client) == "first"
        while "the old certificate stays in use" not in server.output:
            time.sleep(0.01)  # another process writes its log
        write_certificate(tmp_path, "second")
        assert shows(server, "second")
