"""`make dist`: one commit gives the same bytes everywhere, and the packages hold what they should and nothing else."""

import tarfile
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from couriermq import __version__
from tests.support.packages import Packages, make_dist, run, tracked, unpack

pytestmark = pytest.mark.slow

SCRATCH = (
    "couriermq/notes.txt",
    "couriermq/__pycache__/server.cpython-311.pyc",
    "docs/draft.md",
    "tests/clients/node/node_modules/some/index.js",
    "tests/.hypothesis/examples/1",
    "courier-data/courier.db",
    "report.html",
)


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return BytesParser().parsebytes(archive.read(f"couriermq-{__version__}.dist-info/METADATA"))


def test_another_clone_gives_the_same_bytes_whatever_else_lies_there(packages: Packages, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere"
    run("git", "clone", "--quiet", packages.clone, other, cwd=tmp_path, umask=0o077)
    for name in SCRATCH:
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text("not part of the project")
    settings = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7", "SOURCE_DATE_EPOCH": "1000000000"}
    again = make_dist(other, umask=0o077, **settings)
    assert again.wheel.name == packages.wheel.name
    assert again.wheel.read_bytes() == packages.wheel.read_bytes()
    assert again.sdist.read_bytes() == packages.sdist.read_bytes()


def test_the_wheel_built_from_the_sdist_is_the_same_wheel(packages: Packages, tmp_path: Path) -> None:
    source = unpack(packages.sdist, tmp_path)
    commit_time = run("git", "log", "-1", "--format=%ct", cwd=packages.clone).strip()
    python, tool = packages.clone / ".venv/bin/python", str(packages.clone / ".venv/build")
    command = (python, "-m", "hatchling", "build", "-t", "wheel")
    run(*command, cwd=source, SOURCE_DATE_EPOCH=commit_time, PYTHONPATH=tool)
    assert (source / "dist" / packages.wheel.name).read_bytes() == packages.wheel.read_bytes()


def test_the_wheel_holds_every_file_of_the_package_and_what_spark_finds_it_by(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {name for name in tracked(packages.clone) if name.startswith("couriermq/")}
    assert {"couriermq/py.typed", "couriermq/storage/sqlite/queries.sql"} <= wanted
    assert found == wanted | {"pyspark_courier.py", "couriermq.pth"}


def test_the_sdist_holds_what_git_tracks(packages: Packages) -> None:
    with tarfile.open(packages.sdist) as archive:
        found = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    wanted = {name for name in tracked(packages.clone) if not name.startswith(".ci/")}
    assert found == wanted | {"PKG-INFO"}


def test_the_metadata_names_the_project_its_extras_and_its_command(packages: Packages) -> None:
    about = metadata(packages.wheel)
    assert (about["Name"], about["Version"], about["License-Expression"]) == ("couriermq", __version__, "Apache-2.0")
    assert set(about.get_all("Provides-Extra", [])) == {"connect", "delta", "postgres", "spark", "tracing"}
    assert "Typing :: Typed" in about.get_all("Classifier", [])
    assert about.get_all("Project-URL", []) != []
    with zipfile.ZipFile(packages.wheel) as archive:
        commands = archive.read(f"couriermq-{__version__}.dist-info/entry_points.txt").decode()
    assert commands.split() == ["[console_scripts]", "courier", "=", "couriermq.cli:main"]


def test_an_unpacked_sdist_inside_a_clone_is_not_taken_for_the_clone(packages: Packages, tmp_path: Path) -> None:
    source = unpack(packages.sdist, tmp_path)
    run("git", "init", "--quiet", cwd=tmp_path)
    with pytest.raises(AssertionError, match="is not a git clone; `make dist` packs what git tracks"):
        run(packages.clone / ".venv/bin/python", "tools/build_dist.py", cwd=source)
    assert not (source / "dist").exists()
