"""Receivers that attack every phase of a delivery: the server stays small, and others are answered meanwhile.

The server and the receivers are processes of their own. An attack goes on until its receivers have written a hundred
megabytes.
"""

from collections.abc import Iterator

import pytest

from tests.support.attacked_deliveries import MESSAGES, SETTINGS, Courier
from tests.support.hostile import CONNECTION_BYTES, MIB, TOTAL_BYTES
from tests.support.receiver_attacks import DEAF, ENCRYPTED, FINE, HEADS, NOISE, TAILS, receivers
from tests.support.server import start_server

MANY = 16
ONE_AND_MANY = pytest.mark.parametrize(
    ("connections", "limit"), [(1, CONNECTION_BYTES), (MANY, TOTAL_BYTES)], ids=["one", "many"]
)


@pytest.fixture(scope="module")
def courier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Courier]:
    with receivers() as attackers, start_server(tmp_path_factory.mktemp("delivery"), **SETTINGS) as server:
        yield Courier(server, attackers)
        assert "Traceback" not in server.output


@ONE_AND_MANY
@pytest.mark.parametrize("attack", [*HEADS, NOISE])
def test_a_response_without_a_status_is_a_failed_attempt(
    courier: Courier, attack: str, connections: int, limit: int
) -> None:
    with courier.watch() as watch:
        queues = courier.flood(attack, connections=connections)
    watch.cost.check(limit)
    assert {queue.outcomes() for queue in queues} == {(0, connections * MESSAGES)}


@ONE_AND_MANY
@pytest.mark.parametrize("attack", [*TAILS, *(f"tls: {name}" for name in ENCRYPTED)])
def test_a_response_without_end_is_cut_off_and_its_message_is_delivered_once(
    courier: Courier, attack: str, connections: int, limit: int
) -> None:
    before = courier.receivers.tally(attack).requests
    with courier.watch() as watch:
        queues = courier.flood(attack, connections=connections)
    watch.cost.check(limit)
    assert {queue.outcomes() for queue in queues} == {(connections * MESSAGES, 0)}
    assert courier.receivers.tally(attack).requests - before <= len(queues) * connections * MESSAGES


def test_a_receiver_that_does_not_read_holds_no_more_than_the_message(courier: Courier) -> None:
    with courier.watch() as watch:
        queue = courier.queue(DEAF, listeners=MANY, timeout_ms=1_000)
        queue.send(1, "x" * 8 * MIB)
        queue.finish(1)
    watch.cost.check(TOTAL_BYTES)
    assert queue.outcomes() == (0, MANY)


def test_others_get_their_messages_during_an_attack(courier: Courier) -> None:
    attacked = courier.queue("trailers: a value without end", listeners=MANY)
    fine = courier.queue(FINE, listeners=1)
    attacked.send(50)
    fine.send(1)
    fine.finish(1)
    assert fine.outcomes() == (1, 0)
