"""What reaches the terminal, and what must not."""

import json
from io import StringIO

import pytest
from rich.console import Console

from couriermq.cli.following import Wanted, event_line
from couriermq.cli.screen import Column, Screen, Styled, aligned, drawn, harmless, one_line
from couriermq.cli.sending import BATCH_BYTES, BATCH_COUNT, Draft, batches


def test_a_body_cannot_move_the_cursor_or_ring_the_bell() -> None:
    assert harmless("\x1b[2Jgone\x07\x9b1m") == "\\x1b[2Jgone\\x07\\x9b1m"
    assert harmless("two\nlines\tand ümlauts") == "two\nlines\tand ümlauts"


def test_json_is_readable_and_harmless_and_still_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"body": "ü \x1b \x7f \x9b \n 日本"}
    Screen(json=True).document(value)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert "日本" in text
    assert not {"\x1b", "\x7f", "\x9b"} & set(text)


def test_a_preview_is_one_line() -> None:
    assert one_line("a\r\nb\nc\td") == "a⏎b⏎c d"


def test_rows_are_whole_lines_where_nobody_watches() -> None:
    columns = [Column("NAME", fold=True), Column("READY", right=True), Column("NOTE")]
    rows: list[list[str | Styled]] = [["orders" * 40, "1,200", ""], ["a", Styled("7", "red"), "x"]]
    lines = list(aligned(columns, rows))
    assert lines[1] == "orders" * 40 + "  1,200"
    assert lines[2] == "a" + " " * 239 + "      7  x"


def test_a_narrow_terminal_cuts_only_what_may_be_cut() -> None:
    console = Console(width=40, file=StringIO(), record=True)
    columns = [Column("SEQ", right=True), Column("STATE"), Column("BODY", cut=True)]
    console.print(drawn(columns, [["1234567", Styled("delayed", "cyan"), "x" * 200]]))
    row = console.export_text().splitlines()[1]
    assert row.startswith("1234567  delayed  xxxx")
    assert row.rstrip().endswith("…")


def test_an_event_is_one_line_with_what_matters() -> None:
    event = {"offset": 3, "kind": "released", "at": 1_700_000_000_123, "tenant": "default", "queue_id": "q"}
    event |= {"queue": "orders", "seq": 1, "message_id": "m1", "attempt": 2, "size": 10, "principal": "root"}
    event["detail"] = {"delay_ms": 30_000}
    line = event_line(event)
    assert line[8:12] == ".123"
    assert line.split()[1:4] == ["released", "default/orders", "m1"]
    assert line.endswith("attempt 2, delay 30s, by root")
    assert "default" not in event_line(event, here="Q1")


def test_an_event_that_brings_a_message_into_a_queue_says_where_it_comes_from() -> None:
    event = {"offset": 3, "kind": "moved", "at": 1_700_000_000_123, "tenant": "default", "queue_id": "q1"}
    event |= {"queue": "orders", "seq": 1, "message_id": "m1", "attempt": 0, "size": 10, "principal": None}
    event["detail"] = {"target_id": "q2", "target": "spare"}
    assert event_line(event, here="q2").endswith("m1  from orders")
    assert event_line(event | {"queue": None, "queue_id": None}, here="q2").endswith("m1  from another queue")
    assert event_line(event, here="q1").endswith("m1  target spare")


def test_the_server_is_asked_for_the_wanted_events_only() -> None:
    given = {name: value for name, value in Wanted(queue="q1", bodies=False).query("7").items() if value is not None}
    always = {"merged": "true", "lossy": "true", "from": "7", "limit": 1_000}
    assert given == always | {"queue": "q1", "bodies": "false"}
    given = {name: value for name, value in Wanted(wait_ms=5).query("7").items() if value is not None}
    assert given == always | {"wait_ms": 5}


def test_batches_are_full_but_never_too_large() -> None:
    small = [{"body": "x"}] * (BATCH_COUNT * 2 + 1)
    assert [len(batch) for batch in batches(small)] == [BATCH_COUNT, BATCH_COUNT, 1]
    large = [{"body": "x" * BATCH_BYTES}] * 3
    assert [len(batch) for batch in batches(large)] == [1, 1, 1]
    assert list(batches([])) == []


def test_a_json_object_is_called_json_and_other_text_is_left_to_the_server() -> None:
    assert Draft().document(b'{"a": 1}')["content_type"] == "application/json"
    assert Draft().document(b' ["a"]\n')["content_type"] == "application/json"
    for body in (b"[INFO] started", b"17", b'"text"', b"", b"{"):
        assert "content_type" not in Draft().document(body)
    assert Draft(content_type="text/x").document(b"{}")["content_type"] == "text/x"


def test_bytes_that_are_no_text_travel_as_base64() -> None:
    assert Draft().document(b"\xff\x00") == {"body_base64": "/wA="}
