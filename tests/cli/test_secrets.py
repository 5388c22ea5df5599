"""A key file that gets a new key stays the file that it was."""

import os
from pathlib import Path

import pytest

from couriermq.catalog.vault import read_keys
from couriermq.cli.app import main


def new_key(file: Path) -> int:
    return main(["secrets", "new-key", str(file)])


def test_a_link_still_leads_to_the_file(tmp_path: Path) -> None:
    file, link = tmp_path / "real.key", tmp_path / "secrets.key"
    assert new_key(file) == 0
    link.symlink_to(file.name)
    assert new_key(link) == 0
    assert link.is_symlink()
    assert len(read_keys(file)) == 2


def test_the_file_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "secrets.key"
    assert new_key(file) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    assert new_key(file) == 0
    assert file.stat().st_mode & 0o777 == 0o640


def test_the_file_keeps_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, present, given = tmp_path / "secrets.key", os.fstat, []
    assert new_key(file) == 0

    def of_another(descriptor: int) -> os.stat_result:
        mode, inode, device, links, owner, *others = present(descriptor)
        return os.stat_result((mode, inode, device, links, owner + 1, *others))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", of_another)
        patch.setattr(os, "fchown", lambda _, *owner: given.append(owner))
        assert new_key(file) == 0
    assert given == [(file.stat().st_uid, file.stat().st_gid)]


def test_what_a_call_that_died_has_left_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, left = tmp_path / "secrets.key", tmp_path / "secrets.key.new"
    left.touch()
    assert new_key(file) == 1
    assert f"{left} is there: another call runs, or did not end; delete it, then try again" in capsys.readouterr().err
    left.unlink()
    assert new_key(file) == 0
    assert not left.exists()


def test_a_call_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secrets.key"
    assert new_key(file) == 0
    before = file.read_text()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert new_key(file) == 1
    assert [*tmp_path.iterdir()] == [file]
    assert file.read_text() == before
