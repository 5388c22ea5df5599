"""Of the Pythons at hand the environment gets the fastest; here they are scripts that say how fast they are."""

from pathlib import Path

import pytest

from tools import choose_python


class Pythons:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, *, seconds: float, exit_code: int = 0) -> None:
        program = self._folder / name
        program.write_text(f"#!/bin/sh\necho {seconds} /opt/{name}\nexit {exit_code}\n")
        program.chmod(0o755)


@pytest.fixture
def pythons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pythons:
    monkeypatch.setattr(choose_python, "PLACES", [str(tmp_path)])
    return Pythons(tmp_path)


def test_one_that_is_clearly_faster_is_taken(pythons: Pythons) -> None:
    pythons.add("python3", seconds=0.03)
    pythons.add("python3.12", seconds=0.02)
    assert choose_python.choose() == "/opt/python3.12"


def test_one_that_is_hardly_faster_is_not(pythons: Pythons) -> None:
    pythons.add("python3", seconds=0.03)
    pythons.add("python3.12", seconds=0.028)
    assert choose_python.choose() == "/opt/python3"


def test_one_that_is_too_old_or_lacks_a_module_is_passed_over(pythons: Pythons) -> None:
    pythons.add("python3", seconds=0.01, exit_code=1)
    pythons.add("python3.11", seconds=0.03)
    assert choose_python.choose() == "/opt/python3.11"


def test_one_that_cannot_be_started_is_passed_over(pythons: Pythons, tmp_path: Path) -> None:
    pythons.add("python3", seconds=0.03)
    (tmp_path / "python3.12").write_text("#!/nowhere/python\n")
    (tmp_path / "python3.12").chmod(0o755)
    assert choose_python.choose() == "/opt/python3"


def test_one_that_has_two_names_is_tried_under_the_first(pythons: Pythons, tmp_path: Path) -> None:
    pythons.add("python3.12", seconds=0.03)
    (tmp_path / "python3").symlink_to("python3.12")
    assert choose_python.candidates() == [str(tmp_path / "python3")]


def test_there_may_be_none(pythons: Pythons) -> None:
    pythons.add("python3", seconds=0.01, exit_code=1)
    assert choose_python.choose() is None


@pytest.mark.slow
def test_a_real_one_is_found() -> None:
    chosen = choose_python.choose()
    assert chosen is not None
    assert Path(chosen).exists()
