"""Delivery: messages that go to their listeners by themselves, again and again until they arrive."""

from couriermq.delivery.deliveries import Deliveries
from couriermq.delivery.model import BreakerState, DeliveryAttempt, Health, Liveness, LogPage, Outcome
from couriermq.delivery.replay import Replayed

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
