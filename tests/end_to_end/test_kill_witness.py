"""The witness of the kill test is itself put to the test: it notices every promise that is broken."""

from tests.support.witness import Delivery, Witness


def delivered(id_: str, *, attempts: int = 1, asked: int = 0, group: str | None = None, number: int = 0) -> Delivery:
    receipt = f"{id_}/{attempts}"
    return Delivery("orders", id_, attempts, receipt, asked, asked + 1, group, number)


def findings(witness: Witness) -> list[str]:
    witness.attempted |= {delivery.id for delivery in witness.deliveries if delivery.id != "stranger"}
    return witness.findings()


def test_a_good_history_has_no_findings() -> None:
    witness = Witness(accepted={"a"}, deliveries=[delivered("a"), delivered("a", attempts=2, asked=5)])
    witness.settled = [("release", "a/1"), ("ack", "a/2")]
    witness.acked_at = {"a": 9}
    assert findings(witness) == []


def test_a_message_that_was_accepted_and_lost_is_noticed() -> None:
    assert findings(Witness(accepted={"a"})) == ["a was accepted and never came out"]


def test_a_message_that_nobody_sent_is_noticed() -> None:
    assert findings(Witness(deliveries=[delivered("stranger")])) == ["stranger came out and nobody sent it"]


def test_a_message_that_returns_after_its_ack_is_noticed() -> None:
    witness = Witness(deliveries=[delivered("a"), delivered("a", attempts=2, asked=8)], acked_at={"a": 5})
    assert findings(witness) == ["a was acked at 5 and came back at 8"]


def test_a_receive_that_was_asked_before_the_ack_was_answered_may_still_bring_it() -> None:
    witness = Witness(deliveries=[delivered("a"), delivered("a", attempts=2, asked=4)], acked_at={"a": 5})
    assert findings(witness) == []


def test_a_receipt_that_settles_twice_is_noticed() -> None:
    witness = Witness(deliveries=[delivered("a")], settled=[("ack", "a/1"), ("release", "a/1")])
    assert findings(witness) == ["receipt a/1 settled 2 times"]


def test_attempts_that_do_not_grow_are_noticed() -> None:
    witness = Witness(deliveries=[delivered("a"), delivered("a", asked=5)])
    assert "a in orders was delivered as attempts [1, 1]" in findings(witness)


def test_attempts_that_nobody_saw_are_noticed_unless_answers_were_lost() -> None:
    witness = Witness(deliveries=[delivered("a", attempts=3)])
    assert findings(witness) == ["a in orders has 3 attempts of which only 1 were seen"]
    witness.lost_answers = 2
    assert findings(witness) == []


def test_a_group_out_of_order_is_noticed() -> None:
    first, second = delivered("a", group="g"), delivered("b", asked=5, group="g", number=1)
    assert findings(Witness(deliveries=[first, second])) == ["g: number 1 came out before 0 was done"]
    assert findings(Witness(deliveries=[first, second], ack_asked_at={"a": 3})) == []
    assert findings(Witness(deliveries=[first, second], ack_asked_at={"a": 7})) != []


def test_messages_of_a_group_may_come_out_together() -> None:
    together = [delivered("a", group="g"), delivered("b", group="g", number=1)]
    assert findings(Witness(deliveries=together)) == []


def test_a_message_of_a_group_that_was_skipped_is_noticed() -> None:
    assert findings(Witness(deliveries=[delivered("b", group="g", number=1)])) != []
