"""A rebuild that is killed anywhere leaves the old lake or the new one, whole. No Spark runs here."""

import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from couriermq.spark.lake import CHECKPOINT, NOTE
from couriermq.spark.rebuilding import COMPLETE, FRESH, PIECES, finish, mark_complete

STEPS = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync")
"""Every call that changes a folder."""
WITHOUT_LISTENERS = {*PIECES} - {"listener_minutes"}
WITHOUT_CHECKPOINT = {*PIECES} - {CHECKPOINT}


class Killed(BaseException):
    pass


@contextmanager
def killed_before(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing happens from this step on."""
    steps = itertools.count()

    def counted(call: Any) -> Any:
        def then(*given: Any, **named: Any) -> Any:
            if next(steps) >= step:
                raise Killed
            return call(*given, **named)

        return then

    with monkeypatch.context() as patch:
        for name in STEPS:
            patch.setattr(os, name, counted(getattr(os, name)))
        yield


def fill(root: Path, pieces: set[str], told: str) -> dict[str, str]:
    for piece in pieces:
        file = root / piece if piece == NOTE else root / piece / "part"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(told)
    return dict.fromkeys(pieces, told)


def lake(root: Path) -> dict[str, str]:
    """What there is of each piece."""
    files = {piece: root / piece if piece == NOTE else root / piece / "part" for piece in PIECES}
    assert [piece for piece in PIECES if (root / piece).exists() and not files[piece].exists()] == []
    return {piece: file.read_text() for piece, file in files.items() if file.exists()}


@pytest.mark.parametrize(
    ("before", "after"),
    [({*PIECES}, {*PIECES}), (WITHOUT_CHECKPOINT, {*PIECES}), ({*PIECES}, WITHOUT_LISTENERS), ({*PIECES}, set())],
    ids=["all", "the checkpoint was lost", "a table less", "an empty journal"],
)
def test_a_rebuild_that_is_killed_at_any_step_leaves_the_old_lake_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: set[str], after: set[str]
) -> None:
    outcomes = []
    for step in itertools.count():
        root = tmp_path / str(step)
        old, new = fill(root, before, "old"), fill(root / FRESH, after, "new")
        (root / FRESH).mkdir(exist_ok=True)
        try:
            with killed_before(step, monkeypatch):
                mark_complete(root / FRESH)
                finish(root)
        except Killed:
            pass
        else:
            break
        marked = (root / FRESH / COMPLETE).exists()
        finish(root)
        assert lake(root) in ([new] if marked or "new" in outcomes else [old, new])
        outcomes.append("new" if lake(root) == new else "old")
        assert not (root / FRESH).exists()
    assert lake(root) == new
    assert outcomes == sorted(outcomes, reverse=True)
    assert {*outcomes} == {"old", "new"}


def test_a_mark_of_an_earlier_version_which_names_nothing_puts_in_place_what_there_is(tmp_path: Path) -> None:
    fill(tmp_path, {*PIECES}, "old")
    new = fill(tmp_path / FRESH, {*PIECES}, "new")
    (tmp_path / FRESH / COMPLETE).touch()
    finish(tmp_path)
    assert lake(tmp_path) == new
