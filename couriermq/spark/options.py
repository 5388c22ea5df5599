"""The connector's options: read once, checked, named when they are wrong."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from couriermq.journal.schema import ALWAYS, CLAIMED_COLUMNS, COLUMNS, MESSAGE_COLUMNS, spark_schema
from couriermq.spark.journal import Journal
from couriermq.spark.offsets import EARLIEST, LATEST, check_position

EVENTS, MESSAGES, RANGES, CONSUME = "events", "messages", "ranges", "consume"
RANGE_COLUMNS = (("start", "int64"), ("stop", "int64"))
MODES = {EVENTS: COLUMNS, MESSAGES: MESSAGE_COLUMNS, RANGES: RANGE_COLUMNS, CONSUME: CLAIMED_COLUMNS[1:]}
OF_EVENTS = {EVENTS, MESSAGES}
"""Modes whose rows are events of the journal."""
KNOWN = (
    "url", "token", "caFile", "tenant", "queue", "queues", "mode", "startingOffset", "endingOffset",
    "maxRecordsPerBatch", "rowsPerPartition", "failOnDataLoss", "acceptIncarnation", "cursor", "job",
    "exchange", "series", "number", "path",
    "checkpointLocation",
)  # fmt: skip
ROWS_PER_PARTITION = 1_000_000


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
    accept_incarnation: bool
    cursor: str | None
    job: str | None
    exchange: str | None
    series: str | None
    number: int | None

    @property
    def schema(self) -> str:
        return spark_schema(MODES[self.mode], always=ALWAYS if self.mode in OF_EVENTS else frozenset())


def read_options(given: Mapping[str, str]) -> Options:
    """Options whose names are compared without regard to case; a missing address or token is asked of the environment.

    The environment is that of the driver: executors get what it found.
    """
    known = {name.lower(): name for name in KNOWN}
    options = {known.get(name.lower(), name): value for name, value in given.items()}
    if strange := sorted(set(options) - set(KNOWN)):
        raise OptionError(f"{strange[0]!r} is not an option of format('courier'); it knows {', '.join(KNOWN[:-2])}")
    return Options(
        journal=Journal(_url(options), options.get("token") or _token_of_environment(), options.get("caFile") or None),
        mode=_choice(options, "mode", tuple(MODES)),
        tenant=options.get("tenant"),
        queues=_queues(options),
        starting=_position(options, "startingOffset", EARLIEST),
        ending=_position(options, "endingOffset", LATEST),
        rows_per_batch=_number(options, "maxRecordsPerBatch", None),
        rows_per_partition=_number(options, "rowsPerPartition", ROWS_PER_PARTITION) or ROWS_PER_PARTITION,
        fail_on_data_loss=_choice(options, "failOnDataLoss", ("true", "false")) == "true",
        accept_incarnation=_choice(options, "acceptIncarnation", ("false", "true")) == "true",
        cursor=options.get("cursor"),
        job=options.get("job"),
        exchange=options.get("exchange"),
        series=options.get("series"),
        number=_number(options, "number", None, least=0),
    )


def _token_of_environment() -> str | None:
    token, file = os.environ.get("COURIER_TOKEN"), os.environ.get("COURIER_TOKEN_FILE")
    if token or not file:
        return token
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"COURIER_TOKEN_FILE names {file}, which cannot be read: {error}") from None


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


def _number(options: Mapping[str, str], name: str, default: int | None, *, least: int = 1) -> int | None:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < least:
        raise OptionError(f"{name} is {text!r}; give a whole number, {least} or more")
    return int(text)


def _position(options: Mapping[str, str], name: str, default: str) -> str:
    position = options.get(name, default)
    try:
        check_position(position)
    except ValueError:
        raise OptionError(
            f"{name} is {position!r}; give earliest, latest, an offset (with a tenant's credential a position), or a"
            " time such as 2026-01-31T12:00:00Z"
        ) from None
    return position
