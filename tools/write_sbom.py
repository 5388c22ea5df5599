"""Write the bill of materials of Courier as CycloneDX JSON, from the locks alone.

    python tools/write_sbom.py dist/sbom.cdx.json

It lists every package of locks/*.txt with its version and the hashes of its files. The scope says who needs it:
`required` the server, `optional` an extra, `excluded` only those who develop Courier. The same locks always give the
same bytes: there is no time in the file, and its serial number is made from its contents.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SERVER = "server.txt"
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://github.com/couriermq/couriermq/sbom")
SPEC = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}

_PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class Pin(NamedTuple):
    """A package as one lock has it; `parents` are those that need it."""

    name: str
    version: str
    hashes: frozenset[str]
    parents: frozenset[str]


def read_lock(text: str) -> Iterator[Pin]:
    """Every package of a lock that uv wrote with hashes."""
    for entry in re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE):
        found = _PIN.match(entry)
        if found is None:
            if entry.strip():
                raise ValueError(f"the lock has an entry that pins no version: {entry.splitlines()[0]}")
            continue
        hashes = frozenset(_HASH.findall(entry))
        if not hashes:
            raise ValueError(f"the lock has no hash for {found['name']}")
        comments = (line.strip().lstrip("# ").removeprefix("via").strip() for line in entry.splitlines() if "#" in line)
        parents = frozenset(line for line in comments if line and not line.startswith("-"))
        yield Pin(normal(found["name"]), found["version"], hashes, parents)


def normal(name: str) -> str:
    """The name as PyPI compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sbom(root: Path) -> dict[str, Any]:
    locks = {path.name: list(read_lock(path.read_text())) for path in sorted(root.glob("locks/*.txt"))}
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    found = _VERSION.search((root / "couriermq" / "__init__.py").read_text())
    assert found is not None, "couriermq/__init__.py names the version"
    product = purl(project["name"], found[1])
    scopes = scopes_of(locks, project)
    document = SPEC | {
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": product,
                "name": project["name"],
                "version": found[1],
                "purl": product,
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": components(locks, scopes),
        "dependencies": dependencies(locks, product, project),
    }
    return document | {"serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(document, sort_keys=True))}"}


def scopes_of(locks: dict[str, list[Pin]], project: dict[str, Any]) -> dict[str, str]:
    """Who needs each package, by its name."""
    children: dict[str, set[str]] = {}
    for pin in pins_of(locks):
        for parent in pin.parents:
            children.setdefault(normal(parent), set()).add(pin.name)
    wanted = {name for extra in project["optional-dependencies"].values() for name in names_in(extra)}
    optional: set[str] = set()
    while wanted:
        optional |= wanted
        wanted = {child for name in wanted for child in children.get(name, ())} - optional
    required = {pin.name for pin in locks[SERVER]}
    names = {pin.name for pin in pins_of(locks)}
    return {name: "required" if name in required else "optional" if name in optional else "excluded" for name in names}


def components(locks: dict[str, list[Pin]], scopes: dict[str, str]) -> list[dict[str, Any]]:
    hashes: dict[tuple[str, str], set[str]] = {}
    where: dict[tuple[str, str], list[str]] = {}
    for lock, pins in locks.items():
        for pin in pins:
            key = pin.name, pin.version
            hashes.setdefault(key, set()).update(pin.hashes)
            if lock not in where.setdefault(key, []):
                where[key].append(lock)
    return [
        {
            "type": "library",
            "bom-ref": purl(name, version),
            "name": name,
            "version": version,
            "scope": scopes[name],
            "hashes": [{"alg": "SHA-256", "content": content} for content in sorted(hashes[name, version])],
            "purl": purl(name, version),
            "properties": [{"name": "couriermq:lock", "value": f"locks/{lock}"} for lock in where[name, version]],
        }
        for name, version in sorted(hashes)
    ]


def dependencies(locks: dict[str, list[Pin]], product: str, project: dict[str, Any]) -> list[dict[str, Any]]:
    """What needs what. Where a lock has several versions of a package for several Pythons, all of them are named."""
    versions: dict[str, set[str]] = {}
    for pin in pins_of(locks):
        versions.setdefault(pin.name, set()).add(purl(pin.name, pin.version))
    needs: dict[str, set[str]] = {reference: set() for references in versions.values() for reference in references}
    needs[product] = set()
    for name in names_in(chain(project["dependencies"], *project["optional-dependencies"].values())):
        needs[product] |= versions.get(name, set())
    for pin in pins_of(locks):
        for parent in pin.parents:
            for reference in versions.get(normal(parent), ()):
                needs[reference].add(purl(pin.name, pin.version))
    return [{"ref": reference, "dependsOn": sorted(needs[reference])} for reference in sorted(needs)]


def pins_of(locks: dict[str, list[Pin]]) -> Iterator[Pin]:
    return (pin for pins in locks.values() for pin in pins)


def names_in(requirements: Iterable[str]) -> set[str]:
    return {normal(found[0]) for text in requirements if (found := _NAME.match(text))}


def purl(name: str, version: str) -> str:
    return f"pkg:pypi/{normal(name)}@{version}"


def main(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    document = sbom(ROOT)
    target.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    print(f"{target}: {len(document['components'])} packages")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist/sbom.cdx.json"))
