"""A queue's settings: which options name them and how they are told, in one table."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from cyclopts import Group, Parameter

from couriermq.cli.options import UNLIMITED, Duration, Limit, Size, read_attributes
from couriermq.cli.quantities import show_duration, show_size

SETTINGS = Group("Settings", sort_key=50)
Json = dict[str, Any]


class Setting(NamedTuple):
    """A setting by its name on the wire, the option that sets it, and what people read of it."""

    key: str
    option: str | None
    words: str
    show: Callable[[Any], str]


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


TABLE = (
    Setting("paused", None, "paused", _yes_or_no),
    Setting("delay_ms", "delay", "delay", show_duration),
    Setting("lease_ms", "lease", "lease", show_duration),
    Setting("retention_ms", "retention", "retention", show_duration),
    Setting("max_attempts", "max_attempts", "max attempts", lambda count: str(count or UNLIMITED)),
    Setting("max_leased", "max_leased", "max leased", lambda count: str(count or UNLIMITED)),
    Setting("retry_delay_ms", "retry_delay", "retry delay", show_duration),
    Setting("dead_letter_queue", "dead_letter_queue", "dead letters to", lambda name: name or NOWHERE),
    Setting("max_body_bytes", "max_body", "max body", show_size),
    Setting("late_ack", "late_ack", "late ack", str),
    Setting("archive_bodies", "archive_bodies", "bodies archived", _yes_or_no),
)
NOWHERE = "nowhere: dead messages are discarded"


def setting_facts(settings: Json) -> list[tuple[str, str]]:
    """What people read of a queue's settings; those that only a newer server knows come last, as they are, and those
    that an older one does not know are left out."""
    known = {setting.key for setting in TABLE}
    facts = [(setting.words, setting.show(settings[setting.key])) for setting in TABLE if setting.key in settings]
    others = [(key.replace("_", " "), json.dumps(value)) for key, value in settings.items() if key not in known]
    return facts + others


@Parameter(name="*", group=SETTINGS)
@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The settings that a command line names; None leaves one as it is."""

    delay: Duration | None = None
    """How long messages wait before they can be received."""

    lease: Duration | None = None
    """How long a receiver holds a message unless it says otherwise."""

    retention: Duration | None = None
    """How long a message is kept before it is discarded."""

    max_attempts: Limit | None = None
    """After how many failed leases a message is dead."""

    max_leased: Limit | None = None
    """How many messages may be leased at the same time."""

    retry_delay: Duration | None = None
    """How long a failed message waits before its next attempt."""

    dead_letter_queue: Annotated[str | None, Parameter(metavar="QUEUE")] = None
    """Where dead messages go; without one they are discarded."""

    max_body: Size | None = None
    """The largest body that the queue takes."""

    late_ack: Literal["refuse", "accept"] | None = None
    """What an ack means after its lease has ended."""

    archive_bodies: Annotated[bool | None, Parameter(negative="--no-archive-bodies")] = None
    """Whether the journal keeps the bodies of sent messages."""

    setting: Annotated[list[str] | None, Parameter(metavar="NAME=VALUE")] = None
    """Any other setting by its name in the API; may be given again."""

    def document(self) -> Json:
        """The settings as the native dialect takes them."""
        given = ((setting.key, getattr(self, setting.option)) for setting in TABLE if setting.option)
        settings: Json = read_attributes(self.setting)
        settings.update((key, value) for key, value in given if value is not None)
        for name in ("max_attempts", "max_leased"):
            if settings.get(name) == UNLIMITED:
                settings[name] = None
        return settings


NOTHING = Wishes()
