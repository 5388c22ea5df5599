"""What a listener may be set to."""

from couriermq.core.errors import Invalid
from couriermq.core.limits import DELAY_MS, check_range
from couriermq.core.model import MINUTE, ListenerSettings
from couriermq.core.routing import check_rule
from couriermq.delivery.authorization import check_authorization
from couriermq.delivery.guard import Guard
from couriermq.delivery.headers import check_headers

NAME_CHARS = 128
WAIT_COUNT = 100
TIMEOUT_MS = (100, 5 * MINUTE)
CONCURRENCY = (1, 1_000)
RATE = 100_000.0


def check_listener_name(name: str) -> None:
    if not 1 <= len(name) <= NAME_CHARS or not name.isprintable():
        raise Invalid(f"the name of a listener has 1 to {NAME_CHARS} visible characters", field="name")


def check_listener_settings(settings: ListenerSettings, guard: Guard, *, tenant: str) -> None:
    """Raise Invalid, with the sentence that helps, for settings with which nothing could be delivered."""
    if len(settings.schedule_ms) > WAIT_COUNT:
        raise Invalid(f"a schedule has at most {WAIT_COUNT} waits", field="schedule_ms")
    for wait_ms in settings.schedule_ms:
        check_range("schedule_ms", wait_ms, 0, DELAY_MS)
    check_range("timeout_ms", settings.timeout_ms, *TIMEOUT_MS)
    check_range("concurrency", settings.concurrency, *CONCURRENCY)
    if not 0 <= settings.jitter <= 1:
        raise Invalid("jitter is a part of the wait, from 0 to 1", field="jitter")
    rate = settings.requests_per_second
    if rate is not None and not 0.001 <= rate <= RATE:
        raise Invalid(f"requests_per_second is from 0.001 to {RATE:.0f}", field="requests_per_second")
    for rule in settings.rules:
        check_rule(rule)
    check_headers(settings.headers)
    check_authorization(settings.authorization, guard, tenant=tenant)
