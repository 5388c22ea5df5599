"""Delivery: messages that go to their listeners by themselves, again and again until they arrive."""

from courier.delivery.deliveries import Deliveries
from courier.delivery.model import BreakerState, DeliveryAttempt, Health, Liveness, LogPage, Outcome
from courier.delivery.replay import Replayed

__all__ = [
    "BreakerState",
    "Deliveries",
    "DeliveryAttempt",
    "Health",
    "Liveness",
    "LogPage",
    "Outcome",
    "Replayed",
]
