"""A listener's settings as options, and as people read them."""

import json
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter

from couriermq.cli.exits import usage
from couriermq.cli.options import Duration, Flag, SecretText, read_pairs, secret_text
from couriermq.cli.quantities import read_duration, show_duration
from couriermq.cli.rules import read_rule, show_rule

SETTINGS = Group("Settings", sort_key=50)
Json = dict[str, Any]


@Parameter(name="*", group=SETTINGS)
@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The settings that a command line names; None leaves one as it is."""

    schedule: Annotated[str | None, Parameter(metavar="5s,5m,…")] = None
    """The waits after failed attempts."""

    timeout: Duration | None = None
    """How long the receiver may take to answer."""

    concurrency: Annotated[int | None, Parameter(metavar="N")] = None
    """How many deliveries may be under way at once."""

    requests_per_second: Annotated[float | None, Parameter(metavar="N")] = None
    """How often the receiver may be called."""

    ordered: Flag = False
    """One at a time, in the order of sending; only when a listener is made."""

    cloudevents: Annotated[bool | None, Parameter(negative="--no-cloudevents")] = None
    """Whether deliveries carry CloudEvents headers."""

    rule: Annotated[list[str] | None, Parameter(alias="-r", metavar="RULE")] = None
    """Only messages for which this holds, such as 'region eq eu' or '$.order.total >= 100'; may be given again."""

    header: Annotated[list[str] | None, Parameter(metavar="NAME=VALUE")] = None
    """A header for every delivery; NAME=@FILE reads the value from a file; may be given again."""

    bearer: Annotated[SecretText | None, Parameter(metavar="TOKEN|-|@FILE")] = None
    """Prove ourselves by this token."""

    basic: Annotated[SecretText | None, Parameter(metavar="USER:PASSWORD|-|@FILE")] = None
    """Prove ourselves by this user and password."""

    oauth: Annotated[SecretText | None, Parameter(metavar="JSON|-|@FILE")] = None
    """Prove ourselves by client credentials: {"token_url": …, "client_id": …, "client_secret": …}."""

    def document(self) -> Json:
        """The settings as the native dialect takes them."""
        given: Json = {
            "schedule_ms": None if self.schedule is None else _read_schedule(self.schedule),
            "timeout_ms": self.timeout,
            "concurrency": self.concurrency,
            "requests_per_second": self.requests_per_second,
            "ordered": True if self.ordered else None,
            "cloudevents": self.cloudevents,
            "rules": [read_rule(text) for text in self.rule] if self.rule else None,
            "headers": {n: secret_text(v) for n, v in read_pairs(self.header, "a header").items()} or None,
            "authorization": self._authorization(),
        }
        return {key: value for key, value in given.items() if value is not None}

    def _authorization(self) -> Json | None:
        if self.bearer is not None:
            return {"type": "bearer", "token": self.bearer}
        if self.basic is not None:
            user, _, password = self.basic.partition(":")
            return {"type": "basic", "username": user, "password": password}
        if self.oauth is None:
            return None
        try:
            return {"type": "oauth", **json.loads(self.oauth)}
        except (ValueError, TypeError):
            raise usage(f"{self.oauth!r} is not a JSON object") from None


NOTHING = Wishes()


def _read_schedule(text: str) -> list[int]:
    try:
        return [read_duration(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise usage(str(error)) from None


def setting_facts(settings: Json) -> list[tuple[str, str]]:
    """What people read of a listener's settings."""
    rate = settings["requests_per_second"]
    rules = " and ".join(map(show_rule, settings["rules"]))
    return [
        ("schedule", ", ".join(map(show_duration, settings["schedule_ms"])) or "one attempt"),
        ("timeout", show_duration(settings["timeout_ms"])),
        ("concurrency", "one at a time, in order" if settings["ordered"] else str(settings["concurrency"])),
        ("rate", "no limit" if rate is None else f"at most {rate:g} per second"),
        ("gets", rules or "every message"),
        ("headers", ", ".join(settings["headers"]) or "none of its own"),
        ("authorization", (settings["authorization"] or {}).get("type", "none")),
        ("cloudevents", "yes" if settings["cloudevents"] else "no"),
    ]
