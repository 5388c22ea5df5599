"""Logs: lines for people on a terminal, JSON lines otherwise. What is logged is chosen by hand, so no secret is."""

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import msgspec

from couriermq.config import Settings

_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_COLOURS = {"DEBUG": "\033[2m", "INFO": "", "WARNING": "\033[33m", "ERROR": "\033[31m", "CRITICAL": "\033[31m"}


def configure(settings: Settings, stream: TextIO | None = None) -> None:
    """Send everything that Courier and its libraries log to one stream, standard error unless told."""
    stream = stream or sys.stderr
    handler = logging.StreamHandler(stream)
    for_people = are_for_people(settings, stream)
    handler.setFormatter(HumanFormatter(colours=stream.isatty()) if for_people else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("WARNING")
    logging.getLogger("couriermq").setLevel(settings.log_level.upper())


def are_for_people(settings: Settings, stream: TextIO) -> bool:
    return settings.log_format == "human" or (settings.log_format == "auto" and stream.isatty())


class HumanFormatter(logging.Formatter):
    """Time, level, sentence, then what else is known as name=value."""

    def __init__(self, *, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        facts = "".join(f"  {name}={value}" for name, value in extras(record).items())
        line = escaped(f"{at} {record.levelname.lower():7} {record.getMessage()}{facts}")
        if self._colours and (colour := _COLOURS.get(record.levelname)):
            line = f"{colour}{line}\033[0m"
        return line + (_indented(self.formatException(record.exc_info)) if record.exc_info else "")


def escaped(text: str) -> str:
    """The text on one line of a terminal: a caller's bytes can neither begin a line nor move the cursor."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def _indented(trace: str) -> str:
    """A trace below its line. Every line is set in, so that the text of an error cannot pass for a line of the log."""
    return "".join(f"\n    {escaped(line)}" for line in trace.splitlines())


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extras(record),
        }
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(entry, enc_hook=str).decode()


def extras(record: logging.LogRecord) -> dict[str, object]:
    """What the caller added with `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY}
