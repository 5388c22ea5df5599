"""Build the wheel and the sdist so that one commit gives the same bytes in every clone.

    PYTHONPATH=<folder with the packages of locks/build.txt> python tools/build_dist.py [FOLDER]

The build sees a copy of the files that git tracks, so nothing else in the folder can get into the packages. The time in
the packages is that of the last commit. `make dist` runs this with the locked build tool.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("couriermq-*.whl", "couriermq-*.tar.gz")


def build(root: Path, target: Path) -> list[Path]:
    """Build the packages of the clone `root` into the folder `target`, where they replace older ones."""
    check_clone(root)
    with tempfile.TemporaryDirectory(prefix="couriermq-dist-") as name:
        source, built = Path(name, "source"), Path(name, "built")
        copy_tracked(root, source)
        run_hatchling(source, built, commit_time=git(root, "log", "-1", "--format=%ct").strip())
        return replace_packages(built, target)


def check_clone(root: Path) -> None:
    """An unpacked sdist that lies inside some other clone must not be taken for that clone."""
    top = git(root, "rev-parse", "--show-toplevel").strip()
    if Path(top).resolve() != root.resolve():
        sys.exit(f"{root} is not a git clone; `make dist` packs what git tracks, so run it in a clone of Courier")


def git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, text=True, check=True).stdout
    except FileNotFoundError:
        sys.exit("`make dist` asks git which files to pack; install git")
    except subprocess.CalledProcessError:
        sys.exit(f"`git {' '.join(arguments)}` failed in {root}; run `make dist` in a git clone with a commit")


def copy_tracked(root: Path, target: Path) -> None:
    for name in git(root, "ls-files", "-z").split("\0"):
        if name and (root / name).is_file():  # not a file: deleted, and the deletion is not committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target / name)


def run_hatchling(source: Path, built: Path, *, commit_time: str) -> None:
    # Variables of hatchling's own would change what it builds.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HATCH_")}
    environ = kept | {"SOURCE_DATE_EPOCH": commit_time}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(built)]
    done = subprocess.run(command, cwd=source, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr.rstrip()}\nhatchling could not build the packages; run this through `make dist`")


def replace_packages(built: Path, target: Path) -> list[Path]:
    target.mkdir(parents=True, exist_ok=True)
    for pattern in PACKAGES:
        for old in target.glob(pattern):
            old.unlink()
    return [Path(shutil.move(package, target / package.name)) for package in sorted(built.iterdir())]


def main(arguments: list[str]) -> None:
    target = Path(arguments[0]) if arguments else ROOT / "dist"
    packages = build(ROOT, target)
    if git(ROOT, "status", "--porcelain", "--untracked-files=no"):
        sys.stderr.write("the packages contain changes that are not committed; others cannot build the same bytes\n")
    for package in packages:
        print(hashlib.sha256(package.read_bytes()).hexdigest(), package)


if __name__ == "__main__":
    main(sys.argv[1:])
