"""Logs for people and for programs."""

import io
import logging
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from couriermq.config import Settings
from couriermq.telemetry import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root, courier = logging.getLogger(), logging.getLogger("couriermq")
    before = root.handlers[:], root.level, courier.level
    yield
    root.handlers[:] = before[0]
    for logger, level in zip((root, courier), before[1:], strict=True):
        logger.setLevel(level)


def written(stream: io.StringIO, **settings: Any) -> io.StringIO:
    logs.configure(Settings(**settings), stream)
    log = logging.getLogger("couriermq.test")
    log.debug("too quiet")
    log.info("queue %s is full", "orders", extra={"count": 3})
    return stream


def test_programs_get_one_json_object_a_line() -> None:
    line = written(io.StringIO()).getvalue()
    entry = msgspec.json.decode(line)
    assert {key: entry[key] for key in ("level", "logger", "message", "count")} == {
        "level": "info",
        "logger": "couriermq.test",
        "message": "queue orders is full",
        "count": 3,
    }
    assert entry["at"].endswith("+00:00")


def test_people_get_a_readable_line() -> None:
    line = written(Terminal()).getvalue()
    assert line.rstrip().endswith("info    queue orders is full  count=3")


def test_a_chosen_format_wins_over_the_terminal() -> None:
    assert written(Terminal(), log_format="json").getvalue().startswith("{")
    assert not written(io.StringIO(), log_format="human").getvalue().startswith("{")


def test_the_level_is_a_setting() -> None:
    assert "too quiet" in written(io.StringIO(), log_level="debug").getvalue()
    assert written(io.StringIO(), log_level="error").getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_an_exception_is_shown_with_its_trace(stream: io.StringIO) -> None:
    logs.configure(Settings(), stream)
    try:
        raise ValueError("no such luck")
    except ValueError:
        logging.getLogger("couriermq.test").exception("it failed")
    assert "ValueError: no such luck" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()


def test_what_json_cannot_say_is_written_as_text() -> None:
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    logging.getLogger("couriermq.test").info("odd", extra={"thing": object, "path": Settings().data})
    assert msgspec.json.decode(stream.getvalue())["path"] == "courier-data"


FORGED = "/a\n12:00:00 info    all is well\r\x1b[2J\x85\u2028\u202e\x00"


@pytest.mark.parametrize("log_format", ["human", "json"])
def test_a_value_that_a_caller_chose_cannot_begin_a_line(log_format: str) -> None:
    stream = io.StringIO()
    logs.configure(Settings(log_format=log_format), stream)  # type: ignore[arg-type]
    logging.getLogger("couriermq.test").info("GET %s", FORGED, extra={"path": FORGED})
    written = stream.getvalue()
    assert len(written.splitlines() if log_format == "human" else written.split("\n")[:-1]) == 1
    assert written.count("all is well") == 2
    assert "\x1b" not in written


def test_the_text_of_an_error_cannot_pass_for_a_line_of_the_log() -> None:
    stream = io.StringIO()
    logs.configure(Settings(log_format="human"), stream)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("couriermq.test").exception("it failed")
    first, *others = stream.getvalue().splitlines()
    assert first.endswith("error   it failed")
    assert [line for line in others if not line.startswith("    ")] == []
