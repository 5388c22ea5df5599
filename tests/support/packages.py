"""Clones of the project, and the packages that `make dist` builds in them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
PATIENCE_SECONDS = 300
FOREIGN = ("COURIER_", "GIT_", "HATCH_", "MAKE", "PYTHON", "VIRTUAL_ENV")
"""Variables of the developer, of git's hooks and of the `make` that runs the tests: they would change a build."""


class Packages(NamedTuple):
    """A clone and what `make dist` has built in it."""

    clone: Path
    wheel: Path
    sdist: Path


def environ(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)} | variables


def run(*command: str | Path, cwd: Path, umask: int = -1, **variables: str) -> str:
    """What the command prints; its errors are part of the failure."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environ(**variables),
        umask=umask,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def tracked(clone: Path) -> set[str]:
    return set(run("git", "ls-files", "-z", cwd=clone).split("\0")) - {""}


def make_dist(clone: Path, *, umask: int = -1, **variables: str) -> Packages:
    """Run `make dist` in a clone whose environment has uv already; downloading uv is the one step left out."""
    run(UV, "venv", "--quiet", "--python", sys.executable, clone / ".venv", cwd=clone)
    (clone / ".venv/bin/uv").symlink_to(UV)
    run("make", "dist", cwd=clone, umask=umask, **variables)
    (wheel,) = (clone / "dist").glob("*.whl")
    (sdist,) = (clone / "dist").glob("*.tar.gz")
    return Packages(clone, wheel, sdist)


def snapshot(clone: Path) -> None:
    """Make a clone with one commit, which holds what this folder holds, committed or not."""
    for name in run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).split("\0"):
        if name and (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    run("git", "init", "--quiet", cwd=clone)
    run("git", "add", "--all", cwd=clone)
    author = ("-c", "user.name=Courier", "-c", "user.email=courier@localhost", "-c", "commit.gpgsign=false")
    run("git", *author, "commit", "--quiet", "--message", "Everything", cwd=clone)


def unpack(sdist: Path, folder: Path) -> Path:
    """The folder in which the sdist's files are."""
    run("tar", "-xzf", sdist, cwd=folder)
    (source,) = folder.glob("couriermq-*")
    return source
