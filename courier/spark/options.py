"""The connector's options: read once, checked, named when they are wrong."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from courier.journal.schema import COLUMNS, MESSAGE_COLUMNS, spark_schema
from courier.spark.journal import Journal

EVENTS, MESSAGES = "events", "messages"
MODES = {EVENTS: COLUMNS, MESSAGES: MESSAGE_COLUMNS}
KNOWN = (
    "url", "token", "tenant", "queue", "queues", "mode", "startingOffset", "endingOffset", "maxRecordsPerBatch",
    "rowsPerPartition", "failOnDataLoss", "cursor", "path",
)  # fmt: skip
ROWS_PER_PARTITION = 100_000


class OptionError(ValueError):
    """An option is missing, unknown or makes no sense; the text says which and why."""


class Options(NamedTuple):
    """What a job asked for."""

    journal: Journal
    mode: str
    tenant: str | None
    queues: tuple[str, ...]
    starting: str
    ending: str
    rows_per_batch: int | None
    rows_per_partition: int
    fail_on_data_loss: bool
    cursor: str | None

    @property
    def schema(self) -> str:
        return spark_schema(MODES[self.mode])

    def place(self, position: str) -> int:
        """The offset that `earliest`, `latest`, a number or a timestamp means now."""
        if position == "earliest":
            return self.journal.span().oldest
        if position == "latest":
            return self.journal.span().next
        if position.isdecimal():
            return int(position)
        return self.journal.offset_at(_instant(position))


def read_options(given: Mapping[str, str]) -> Options:
    """Options whose names are compared without regard to case; a missing address or token is asked of the environment.

    The environment is that of the driver: executors get what it found.
    """
    known = {name.lower(): name for name in KNOWN}
    options = {known.get(name.lower(), name): value for name, value in given.items()}
    if strange := sorted(set(options) - set(KNOWN)):
        raise OptionError(f"{strange[0]!r} is not an option of format('courier'); it knows {', '.join(KNOWN[:-1])}")
    return Options(
        journal=Journal(_url(options), options.get("token") or os.environ.get("COURIER_TOKEN")),
        mode=_choice(options, "mode", tuple(MODES)),
        tenant=options.get("tenant"),
        queues=_queues(options),
        starting=_position(options, "startingOffset", "earliest"),
        ending=_position(options, "endingOffset", "latest"),
        rows_per_batch=_number(options, "maxRecordsPerBatch", None),
        rows_per_partition=_number(options, "rowsPerPartition", ROWS_PER_PARTITION) or ROWS_PER_PARTITION,
        fail_on_data_loss=_choice(options, "failOnDataLoss", ("true", "false")) == "true",
        cursor=options.get("cursor"),
    )


def _url(options: Mapping[str, str]) -> str:
    url = options.get("url") or options.get("path") or os.environ.get("COURIER_URL") or "http://127.0.0.1:8080"
    return (url if "://" in url else f"http://{url}").rstrip("/")


def _queues(options: Mapping[str, str]) -> tuple[str, ...]:
    names = [options["queue"]] if "queue" in options else []
    names += options["queues"].split(",") if "queues" in options else []
    return tuple(name.strip() for name in names if name.strip())


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name, choices[0]).lower()
    if value not in choices:
        raise OptionError(f"{name} is {value!r}; choose {' or '.join(choices)}")
    return value


def _number(options: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise OptionError(f"{name} is {text!r}; give a whole number, 1 or more")
    return int(text)


def _position(options: Mapping[str, str], name: str, default: str) -> str:
    position = options.get(name, default)
    if position not in {"earliest", "latest"} and not position.isdecimal():
        try:
            _instant(position)
        except ValueError:
            raise OptionError(
                f"{name} is {position!r}; give earliest, latest, an offset, or a time such as 2026-01-31T12:00:00Z"
            ) from None
    return position


def _instant(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 time; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
