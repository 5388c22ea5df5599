"""Logs for people and for programs."""

import io
import logging

import msgspec
import pytest

from couriermq.config import Settings
from couriermq.telemetry import logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore_logging():
    root, courier, uvicorn = logging.getLogger(), logging.getLogger("courier"), logging.getLogger("uvicorn")
    before = root.handlers[:], root.level, courier.level, uvicorn.level
    yield
    root.handlers[:] = before[0]
    for logger, level in zip((root, courier, uvicorn), before[1:], strict=True):
        logger.setLevel(level)


def written(stream: io.StringIO, **settings) -> io.StringIO:
    logs.configure(Settings(**settings), stream)
    log = logging.getLogger("courier.test")
    log.debug("too quiet")
    log.info("queue %s is full", "orders", extra={"count": 3})
    return stream


def test_programs_get_one_json_object_a_line():
    line = written(io.StringIO()).getvalue()
    entry = msgspec.json.decode(line)
    assert {key: entry[key] for key in ("level", "logger", "message", "count")} == {
        "level": "info",
        "logger": "courier.test",
        "message": "queue orders is full",
        "count": 3,
    }
    assert entry["at"].endswith("+00:00")


def test_people_get_a_readable_line():
    line = written(Terminal()).getvalue()
    assert line.rstrip().endswith("info    queue orders is full  count=3")


def test_a_chosen_format_wins_over_the_terminal():
    assert written(Terminal(), log_format="json").getvalue().startswith("{")
    assert not written(io.StringIO(), log_format="human").getvalue().startswith("{")


def test_the_level_is_a_setting():
    assert "too quiet" in written(io.StringIO(), log_level="debug").getvalue()
    assert written(io.StringIO(), log_level="error").getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_an_exception_is_shown_with_its_trace(stream):
    logs.configure(Settings(), stream)
    try:
        raise ValueError("no such luck")
    except ValueError:
        logging.getLogger("courier.test").exception("it failed")
    assert "ValueError: no such luck" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()


def test_what_json_cannot_say_is_written_as_text():
    stream = io.StringIO()
    logs.configure(Settings(), stream)
    logging.getLogger("courier.test").info("odd", extra={"thing": object, "path": Settings().data})
    assert msgspec.json.decode(stream.getvalue())["path"] == "courier-data"
