"""Anypoint MQ: the broker, admin and stats APIs, and the tokens that they ask for."""

from couriermq.config import Settings
from couriermq.dialects.anypoint.dialect import Anypoint


def dialect(settings: Settings) -> Anypoint:
    return Anypoint()
