"""The bill of materials says what the locks say, each time in the same bytes."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import write_sbom

ROOT = Path(__file__).parents[2]


def write(target: Path) -> dict[str, Any]:
    subprocess.run([sys.executable, ROOT / "tools" / "write_sbom.py", target], check=True, timeout=60)
    document: dict[str, Any] = json.loads(target.read_text())
    return document


def test_the_same_locks_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "first.json")
    write(tmp_path / "deeper" / "second.json")
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "deeper" / "second.json").read_bytes()


def test_every_pinned_package_is_listed_with_its_hashes(tmp_path: Path) -> None:
    listed = {part["purl"]: part for part in write(tmp_path / "sbom.json")["components"]}
    for lock in (ROOT / "locks").glob("*.txt"):
        text = lock.read_text()
        pins = [line.split()[0] for line in text.splitlines() if "==" in line and not line.startswith((" ", "#"))]
        assert pins
        for pin in pins:
            name, version = pin.split("==")
            part = listed[f"pkg:pypi/{name}@{version}"]
            assert {"name": "couriermq:lock", "value": f"locks/{lock.name}"} in part["properties"]
            assert part["hashes"]
            assert all(f"sha256:{entry['content']}" in all_locks() for entry in part["hashes"])


def all_locks() -> str:
    return "".join(path.read_text() for path in sorted((ROOT / "locks").glob("*.txt")))


def test_the_scope_says_who_needs_a_package() -> None:
    scopes = {part["name"]: part["scope"] for part in write_sbom.sbom(ROOT)["components"]}
    wanted = {
        "httptools": "required",
        "cffi": "required",
        "psycopg": "optional",
        "py4j": "optional",
        "mypy": "excluded",
    }
    assert {name: scopes[name] for name in wanted} == wanted


def test_the_dependencies_name_what_is_listed_and_reach_all_that_runs() -> None:
    document = write_sbom.sbom(ROOT)
    product = document["metadata"]["component"]["bom-ref"]
    needs = {entry["ref"]: entry["dependsOn"] for entry in document["dependencies"]}
    references = [part["bom-ref"] for part in document["components"]]
    assert len(set(references)) == len(references)
    assert set(needs) == {product, *references}
    reached, ahead = set(), [product]
    while ahead:
        reference = ahead.pop()
        if reference not in reached:
            reached.add(reference)
            ahead += needs[reference]
    running = {part["bom-ref"] for part in document["components"] if part["scope"] != "excluded"}
    assert running <= reached


def test_the_serial_number_changes_with_the_contents(tmp_path: Path) -> None:
    copy = tmp_path / "project"
    for name in ("pyproject.toml", "couriermq/__init__.py", "locks/server.txt"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text((ROOT / name).read_text())
    before = write_sbom.sbom(copy)["serialNumber"]
    lock = copy / "locks/server.txt"
    lock.write_text(lock.read_text().replace("attrs==", "attrs==1!"))
    assert write_sbom.sbom(copy)["serialNumber"] != before


@pytest.mark.parametrize("lock", ["attrs>=1\n", "attrs==1\n    # via cyclopts\n", "-e .\nattrs @ file:///x\n"])
def test_a_lock_without_versions_or_hashes_is_refused(lock: str) -> None:
    with pytest.raises(ValueError, match="the lock has"):
        list(write_sbom.read_lock(lock))
