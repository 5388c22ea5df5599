"""Copy the console's libraries from npm into `couriermq/console/vendor`, at exact versions and with checked hashes.

`python tools/vendor_console.py` needs npm; nothing else of the project does for these files. A browser resolves no bare
import, so `from "preact"` becomes `from "./preact.js"`. `HASHES` has the SHA-256 of every file written.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

VENDOR = Path(__file__).parent.parent / "couriermq" / "console" / "vendor"
HASHES, NOTICE = "HASHES", "NOTICE"


class Package(NamedTuple):
    """A package of npm: its integrity as the registry gives it, and which of its files become which of ours."""

    name: str
    version: str
    integrity: str
    files: dict[str, str]


PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        {"dist/preact.mjs": "preact.js", "hooks/dist/hooks.mjs": "hooks.js"},
    ),
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.mjs": "htm.js"},
    ),
    Package(
        "@preact/signals-core",
        "1.14.5",
        "sha512-vcRv7Ityz5JVmeiVqIluLFzT/PDS/AlhHUpw3/aUWqcVUs6bDGIPXE/6RSC4evBNWYvnniozg5Syfj33al3gkg==",
        {"dist/signals-core.mjs": "signals-core.js"},
    ),
    Package(
        "@preact/signals",
        "2.11.4",
        "sha512-Rb+5RPo9gWSaHtzJeauhHxiC8KP/IF2DEPkHPEOGOnuy2wnJzRqyeLRankUCYd6ADqtxS6GnWGv6Ie343d8aYw==",
        {"dist/signals.mjs": "signals.js"},
    ),
)

MODULES = {
    "preact": "./preact.js",
    "preact/hooks": "./hooks.js",
    "@preact/signals-core": "./signals-core.js",
}
_IMPORT = re.compile(r'\bfrom\s*"([^"]+)"')
_SOURCE_MAP = re.compile(r"\n//# sourceMappingURL=\S*\s*$")


def main() -> None:
    """Write every file anew; fails before it writes when a package is not the one that was reviewed."""
    with tempfile.TemporaryDirectory() as folder:
        archives = [(package, _archive(package, Path(folder))) for package in PACKAGES]
        files: dict[str, str] = {}
        for package, archive in archives:
            files |= _files(package, archive)
        files[NOTICE] = "\n".join(_notice(package, archive) for package, archive in archives)
    for old in VENDOR.glob("*"):
        old.unlink()
    VENDOR.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (VENDOR / name).write_text(text, encoding="utf-8")
    (VENDOR / HASHES).write_text("".join(f"{_sha256(files[name])}  {name}\n" for name in sorted(files)))


def _archive(package: Package, folder: Path) -> Path:
    """The package's tar file, which has the hash that we expect."""
    command = ["npm", "pack", "--silent", "--json", f"{package.name}@{package.version}"]
    packed = json.loads(subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout)
    answer = packed[0] if isinstance(packed, list) else next(iter(packed.values()))
    file = folder / str(answer["filename"])
    found = "sha512-" + base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
    if found != package.integrity:
        sys.exit(f"{package.name} {package.version} has integrity {found}, expected {package.integrity}")
    return file


def _files(package: Package, archive: Path) -> dict[str, str]:
    return {target: _as_module(_member(archive, source)) for source, target in package.files.items()}


def _as_module(text: str) -> str:
    """The text with relative imports and without the link to a source map that is not here."""
    return _IMPORT.sub(lambda found: f'from"{MODULES[found[1]]}"', _SOURCE_MAP.sub("\n", text))


def _notice(package: Package, archive: Path) -> str:
    title = f"{package.name} {package.version} ({', '.join(package.files.values())})"
    return f"{title}\n{'=' * len(title)}\n\n" + _member(archive, "LICENSE")


def _member(archive: Path, path: str) -> str:
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"package/{path}")
        assert member is not None, path
        return member.read().decode()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


if __name__ == "__main__":
    main()
