"""Texts and code name the package `couriermq`: PyPI's `courier` is another project."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import PACKAGE, ROOT

FOLDERS = (".ci", "benchmarks", "couriermq", "docs", "examples", "locks", "tests", "tools")
KINDS = {
    "",
    ".capnp",
    ".conf",
    ".js",
    ".json",
    ".lua",
    ".md",
    ".properties",
    ".py",
    ".sql",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
}
PARTS = "|".join(sorted(path.stem for path in PACKAGE.iterdir() if not path.name.startswith((".", "_"))))
STRANGER = re.compile(
    rf"""
      \bpip\ install\b[^`\n]*[\ '"]courier(?=[`'"\s,.;:)])       # pip install courier
    | \bcourier\[                                                # an extra
    | ^\s*(from|import)\ courier\b                               # an import
    | \s-m\ courier\b                                            # python -m courier
    | (?<!/)\bcourier[./]({PARTS})\b                             # a module, or its path
    """,
    re.MULTILINE | re.VERBOSE,
)
EXTRAS = re.compile(r"(?:couriermq|couriermq-\*\.whl\)?)\[([\w, -]+)\]")


def texts() -> Iterator[tuple[str, str]]:
    """The project's files that people read or Python runs, by their paths."""
    files = [path for path in ROOT.iterdir() if path.is_file()]
    files += [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    for path in sorted(set(files) - {Path(__file__).resolve()}):  # its examples are meant to be found
        if path.suffix in KINDS and path.is_file() and not {"node_modules", "results"}.intersection(path.parts):
            yield str(path.relative_to(ROOT)), path.read_text(errors="replace")


def test_nothing_names_the_package_of_a_stranger() -> None:
    found = [f"{name}: {match[0].strip()}" for name, text in texts() for match in STRANGER.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "pip install courier\n",
        "pip install --upgrade 'courier' now",
        "`uv pip install courier`, then",
        "`pip install courier`",
        "install courier[spark]",
        "    from courier import config",
        "python -m courier serve",
        "courier.spark.session",
        "see courier/core/model.py",
    ],
)
def test_the_old_name_is_recognised(text: str) -> None:
    assert STRANGER.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install couriermq",
        "`pip uninstall courier` before you install `couriermq`, then run `courier`",
        "/opt/courier/bin/pip install .",
        "courier.toml",
        "/courier/v1/journal",
        "courier.db",
        "/Volumes/main/courier/lake",
    ],
)
def test_the_command_its_files_and_its_addresses_are_no_package(text: str) -> None:
    assert not STRANGER.search(text)


def test_every_extra_that_is_named_exists() -> None:
    extras = tomllib.loads(Path(ROOT, "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        (extra.strip(), name)
        for name, text in texts()
        for match in EXTRAS.finditer(text)
        for extra in match[1].split(",")
    }
    assert {extra for extra, _ in named} == set(extras), named
