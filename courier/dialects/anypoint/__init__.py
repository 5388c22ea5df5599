"""Anypoint MQ: the broker, admin and stats APIs, and the tokens that they ask for."""

from courier.config import Settings
from courier.dialects.anypoint.dialect import Anypoint


def dialect(settings: Settings) -> Anypoint:
    return Anypoint()
