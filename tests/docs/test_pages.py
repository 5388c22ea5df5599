"""The pages agree with the code and with each other."""

import re
from pathlib import Path

import msgspec
import pytest

from couriermq.config import KEYS, VARIABLES, Settings
from couriermq.core.events import EventKind
from couriermq.core.model import ListenerSettings, QueueSettings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#]*)(#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [
        match[0]
        for match in LINK.finditer(CODE.sub("", page.read_text()))
        if not _found((page.parent / match[1]) if match[1] else page, match[2])
    ]
    assert broken == []


def _found(target: Path, anchor: str | None) -> bool:
    if not target.exists():
        return False
    return anchor is None or anchor[1:] in {_anchor(line) for line in _headings(target)}


def _headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_every_setting_of_the_server_is_in_the_reference_with_its_variable() -> None:
    rows = _rows("docs/operate/configuration.md")
    assert {key for key in KEYS if key not in rows} == set()
    assert [key for variable, key in VARIABLES.items() if f"`{variable}`" not in rows.get(key, "")] == []


@pytest.mark.parametrize("field", msgspec.structs.fields(Settings), ids=lambda field: field.name)
def test_the_reference_names_the_default(field: msgspec.structs.FieldInfo) -> None:
    row = _rows("docs/operate/configuration.md").get(field.name)
    if row is not None and isinstance(field.default, int | str) and not isinstance(field.default, bool):
        assert f"`{field.default}`" in row


def test_every_setting_of_a_queue_is_explained() -> None:
    rows = _rows("docs/concepts/queues.md")
    assert [field.name for field in msgspec.structs.fields(QueueSettings) if field.name not in rows] == []


def test_every_setting_of_a_listener_is_explained() -> None:
    rows = _rows("docs/concepts/listeners.md")
    assert [field.name for field in msgspec.structs.fields(ListenerSettings) if field.name not in rows] == []


def test_every_kind_of_event_is_named() -> None:
    text = (ROOT / "docs/concepts/journal.md").read_text()
    stems = {
        kind if kind.rpartition("_")[2] not in {"added", "changed", "deleted"} else kind.rpartition("_")[0] + "_"
        for kind in EventKind
    }
    assert [stem for stem in sorted(stems) if f"`{stem}`" not in text] == []


def _rows(page: str) -> dict[str, str]:
    """The rows of a page's tables, by the name in their first cell."""
    text = (ROOT / page).read_text()
    return {match[1]: match[0] for match in re.finditer(r"^\| `([\w.]+)` \|.*$", text, re.MULTILINE)}


def test_every_metric_is_explained() -> None:
    names = re.findall(r'"(courier_\w+)"', (ROOT / "couriermq/telemetry/metrics.py").read_text())
    rows = _rows("docs/operate/metrics.md")
    assert names
    assert [name for name in names if name not in rows and f"{name}_total" not in rows] == []


def test_every_decision_is_listed_once_and_in_order() -> None:
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"^\| \[\d{4}\]\(([^)]*)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert listed == sorted(page.name for page in folder.glob("0*.md"))


def test_the_changelog_says_nothing_twice() -> None:
    entries = re.findall(r"^- .*$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sorted(set(entries)) == sorted(entries)


@pytest.mark.parametrize("source", sorted(ROOT.glob("couriermq/**/*.mjs")), ids=lambda source: source.name)
def test_pages_that_a_module_names_exist(source: Path) -> None:
    assert [page for page in re.findall(r"docs/[\w/.-]+\.md", source.read_text()) if not (ROOT / page).exists()] == []
