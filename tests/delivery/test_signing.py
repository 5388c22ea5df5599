"""Signatures as the Standard Webhooks specification has them, verified by its own library."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from standardwebhooks import Webhook, WebhookVerificationError

from couriermq.clock import FakeClock
from couriermq.core.errors import Invalid
from couriermq.core.model import DAY, HOUR, Secret
from couriermq.delivery import signing
from tests.delivery.conftest import Post
from tests.support.receiver import Receiver

ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
VECTOR = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_614_265_330_000
BODY = b'{"test": 2432232314}'


def secret(value: str, *, expires_at: int | None = None) -> Secret:
    return Secret(value=value, created_at=0, expires_at=expires_at)


def sign(*secrets: Secret, now: int = NOW, body: bytes = BODY) -> str:
    return signing.signature(secrets, ID, now // 1_000, body, now=now).decode()


def fresh(*, asymmetric: bool = False, seed: int = 7) -> Secret:
    return signing.new_secret(FakeClock(seed=seed), asymmetric=asymmetric)


def test_the_test_vector_of_the_specification() -> None:
    assert sign(secret(VECTOR)) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_official_library_accepts_a_signature() -> None:
    now = int(datetime.now(UTC).timestamp())
    made = fresh()
    headers = {
        "webhook-id": ID,
        "webhook-timestamp": str(now),
        "webhook-signature": sign(made, now=now * 1_000),
    }
    Webhook(made.value).verify(BODY, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(made.value).verify(BODY + b" ", headers)


def test_an_ed25519_signature_is_verified_with_the_public_key() -> None:
    made = fresh(asymmetric=True)
    version, _, encoded = sign(made).partition(",")
    public = signing.public_key(made.value)
    assert version == "v1a"
    assert public is not None
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public.removeprefix("whpk_")))
    key.verify(base64.b64decode(encoded), f"{ID}.{NOW // 1_000}.".encode() + BODY)


def test_a_key_of_64_bytes_is_its_seed_with_the_public_half_behind_it() -> None:
    made = fresh(asymmetric=True)
    seed = base64.b64decode(made.value.removeprefix("whsk_"))
    public = base64.b64decode((signing.public_key(made.value) or "").removeprefix("whpk_"))
    long = secret("whsk_" + base64.b64encode(seed + public).decode())
    assert sign(long) == sign(made)
    with pytest.raises(Invalid, match="halves"):
        signing.given_secret("whsk_" + base64.b64encode(seed + seed).decode(), now=NOW)


def test_an_hmac_secret_has_no_public_key() -> None:
    assert signing.public_key(VECTOR) is None


def test_during_a_rotation_there_is_a_signature_for_each_secret() -> None:
    old, new = fresh(), fresh(seed=99)
    secrets = signing.rotated((old,), new, overlap_ms=HOUR, now=NOW)
    assert [s.expires_at for s in secrets] == [None, NOW + HOUR]
    assert sign(*secrets) == f"{sign(new)} {sign(old)}"
    assert sign(*secrets, now=NOW + HOUR) == sign(new, now=NOW + HOUR)


def test_a_second_rotation_does_not_lengthen_the_life_of_the_first_secret() -> None:
    first = signing.rotated((fresh(),), fresh(seed=8), overlap_ms=HOUR, now=NOW)
    second = signing.rotated(first, fresh(seed=9), overlap_ms=DAY, now=NOW + 60_000)
    assert [s.expires_at for s in second] == [None, NOW + 60_000 + DAY, NOW + HOUR]


def test_without_an_overlap_only_the_new_secret_signs() -> None:
    new = fresh(seed=9)
    assert signing.rotated((fresh(),), new, overlap_ms=0, now=NOW) == (new,)


def test_secrets_do_not_pile_up() -> None:
    secrets: tuple[Secret, ...] = ()
    for seed in range(30):
        secrets = signing.rotated(secrets, fresh(seed=seed), overlap_ms=DAY, now=NOW)
    assert len(secrets) == signing.MOST_SECRETS


def test_every_attempt_has_a_signature_of_its_own() -> None:
    assert sign(secret(VECTOR)) != sign(secret(VECTOR), now=NOW + 1_000)


@pytest.mark.parametrize(
    "value",
    ["", "hello", "whsec_", "whsec_????", "whsec_" + "QUJD", "whsk_QUJD", "whpk_" + "A" * 44, "whsec_" + "A" * 200],
)
def test_what_nothing_can_be_signed_with_is_refused(value: str) -> None:
    with pytest.raises(Invalid):
        signing.given_secret(value, now=NOW)


async def test_a_delivery_is_signed_with_the_wall_clock(post: Post, receiver: Receiver) -> None:
    post.clock.wall_ahead_ms = 3_600_000
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"hello")
    await post.delivered(listener, 1)
    assert receiver.requests[0].headers["webhook-timestamp"] == str(post.clock.wall() // 1_000)
