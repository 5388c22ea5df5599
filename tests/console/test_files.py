"""The console's files: what was vendored, how much a browser loads, and what the code never does."""

import gzip
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from couriermq.console.lean import lean

CONSOLE = Path(__file__).parents[2] / "couriermq" / "console"
APP, VENDOR = CONSOLE / "app", CONSOLE / "vendor"
KILOBYTE = 1000

ALL_SCRIPT_BYTES = 90 * KILOBYTE
FIRST_PAGE_BYTES = 45 * KILOBYTE
STYLE_BYTES = 12 * KILOBYTE

_STATIC = re.compile(r'(?:^|\n|;)(?:import|export)\b[^"\';]*?from\s*"(\.[^"]+)"')
_ANY = re.compile(r'\b(?:from |import\()"([^",\s]+)"')
_FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc"
)
_SENTENCE = re.compile(r">\s*[A-Z][a-z]+ [a-z]+[^<$]*<")


def scripts() -> list[Path]:
    return sorted(APP.rglob("*.js"))


def packed(files: set[Path]) -> int:
    """How many bytes a browser loads."""
    return sum(len(gzip.compress(sent(file).encode(), mtime=0)) for file in files)


def sent(file: Path) -> str:
    return lean(file.read_text()) if file.is_relative_to(APP) else file.read_text()


def loaded_with(file: Path) -> Iterator[Path]:
    """A module and everything that its static imports bring."""
    waiting, known = [file], set[Path]()
    while waiting:
        one = waiting.pop().resolve()
        if one not in known:
            known.add(one)
            waiting += [one.parent / path for path in _STATIC.findall(one.read_text())]
            yield one


def test_every_vendored_file_is_the_one_that_was_reviewed() -> None:
    lines = [line.split("  ") for line in (VENDOR / "HASHES").read_text().splitlines()]
    listed = {name: digest for digest, name in lines}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in VENDOR.iterdir()}
    del found["HASHES"]
    assert found == listed


def test_the_notice_has_the_licence_of_every_library() -> None:
    notice = (VENDOR / "NOTICE").read_text()
    assert all(name in notice for name in ("preact 11", "htm 3", "@preact/signals 2", "@preact/signals-core 1"))
    assert notice.count("Permission is hereby granted") + notice.count("Apache License") >= 4


def test_all_scripts_together_are_small() -> None:
    assert packed({*scripts(), *VENDOR.glob("*.js")}) <= ALL_SCRIPT_BYTES


def test_the_first_page_is_small() -> None:
    files = {*loaded_with(APP / "main.js"), *loaded_with(APP / "pages" / "overview.js"), APP / "live-worker.js"}
    assert APP / "shell.js" in files
    assert packed({*files, CONSOLE / "index.html"}) <= FIRST_PAGE_BYTES


def test_styles_are_small() -> None:
    assert packed({*CONSOLE.rglob("*.css")}) <= STYLE_BYTES


def test_the_page_names_files_that_exist() -> None:
    page = (CONSOLE / "index.html").read_text()
    preloaded = re.search(r'name="preload" content="([^"]*)"', page)
    assert preloaded is not None
    named = preloaded[1].split() + re.findall(r'\{\{assets\}\}/([^"]+)"', page)
    assert [name for name in named if not (CONSOLE / name).is_file()] == []


@pytest.mark.parametrize("file", scripts(), ids=lambda file: file.relative_to(APP).as_posix())
def test_a_script_imports_only_files_that_are_here(file: Path) -> None:
    paths = _ANY.findall(file.read_text())
    assert [path for path in paths if not path.startswith(".") or not (file.parent / path).is_file()] == []


@pytest.mark.parametrize("file", scripts(), ids=lambda file: file.relative_to(APP).as_posix())
def test_a_script_makes_no_markup_of_texts_and_asks_no_other_origin(file: Path) -> None:
    text = file.read_text()
    assert _FORBIDDEN.findall(text) == []
    assert re.findall(r"https?://", text) == []


@pytest.mark.parametrize(
    "file", [f for f in scripts() if f.name != "words.js"], ids=lambda f: f.relative_to(APP).as_posix()
)
def test_sentences_are_in_words(file: Path) -> None:
    assert _SENTENCE.findall(file.read_text()) == []


def test_the_page_has_no_inline_script_or_style() -> None:
    page = (CONSOLE / "index.html").read_text()
    assert re.findall(r"<style|style=|<script(?![^>]*\bsrc=)|\bon[a-z]+=", page) == []


@pytest.mark.parametrize("file", scripts(), ids=lambda file: file.relative_to(APP).as_posix())
def test_nothing_of_a_comment_is_sent(file: Path) -> None:
    assert re.findall(r"/\*|\*/|^\s*//", lean(file.read_text()), re.MULTILINE) == []


def test_a_script_is_the_same_program_without_its_comments() -> None:
    script = '// Why.\n/** @type {string} */\nconst url = "http://x"; // stays\n  const y = /** @type {any} */ (url);\n'
    assert lean(script) == 'const url = "http://x"; // stays\nconst y = (url);\n'
