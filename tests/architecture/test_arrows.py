"""Arrows point inward: cli → server → dialects → broker, catalog → storage.base → core."""

import sys

import pytest

from tests.support.source import PACKAGE, Module, imports_of, modules

OUR_WORDS = {
    "core",
    "clock",
    "waiting",
    "admission",
    "naming",
    "pacing",
    "publications",
    "catalog",
    "broker",
    "storage.base",
    "usage",
}
"""The queue itself, without a wire, an engine or a process around it."""

MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "clock": set(),
    "durable": set(),
    "memory": set(),
    "waiting": {"clock"},
    "admission": {"core"},
    "naming": {"core", "clock"},
    "pacing": {"storage.base"},
    "storage.base": {"core"},
    "storage.*": {
        "core",
        "clock",
        "durable",
        "storage.base",
        "storage.agenda",
        "storage.claims",
        "storage.contents",
        "storage.data_plane",
        "storage.group_commit",
        "storage.metrics",
        "storage.queries",
        "storage.skew",
        "storage.stages",
        "storage.staging",
        "storage.checking",
        "storage.dump",
        "storage.trimming",
        "telemetry.histogram",
    },
    "catalog": {"core", "clock", "storage.base"},
    "usage": {"core", "clock", "catalog", "storage.base"},
    "broker": OUR_WORDS,
    "claims": OUR_WORDS,
    "purges": OUR_WORDS,
    "diagnosing": OUR_WORDS | {"claims", "delivery", "lake"},
    "stages": OUR_WORDS | {"storage.staging"},
    "subscriptions": OUR_WORDS | {"journal"},
    "upkeep": OUR_WORDS | {"telemetry"},
    "delivery": OUR_WORDS | {"config", "telemetry", "journal.merging"},
    "journal": {"core", "clock", "storage.base"},
    "lake": {"core", "clock", "journal", "storage.base"},
    "report": {"core", "lake"},
    "workers": set(),
    "spark": {"clock", "journal.schema", "core.jumps", "core.lanes", "core.shards", "core.billing"},
    "telemetry": OUR_WORDS | {"config"},
    "config": {"core"},
    "permissions": {"config", "journal", "storage.*"},
    "auth": OUR_WORDS | {"config", "web"},
    "operations": OUR_WORDS | {"stages", "journal", "monitor"},
    "monitor": OUR_WORDS | {"journal", "telemetry"},
    "console": {"core", "config", "auth", "web"},
    "web": OUR_WORDS
    | {
        "claims",
        "console",
        "monitor",
        "operations",
        "purges",
        "stages",
        "config",
        "auth",
        "telemetry",
        "delivery",
        "journal",
        "lake",
    },
    "dialects": {"core", "web"},
    "dialects.*": {
        "core",
        "clock",
        "catalog",
        "broker",
        "claims",
        "purges",
        "stages",
        "subscriptions",
        "diagnosing",
        "config",
        "auth",
        "web",
        "journal",
        "lake",
        "delivery",
        "console",
        "monitor",
        "operations",
    }
    | {"dialects"},
    "signals": OUR_WORDS | {"delivery", "journal", "monitor", "upkeep"},
    "server": OUR_WORDS
    | {
        "memory",
        "signals",
        "claims",
        "purges",
        "stages",
        "subscriptions",
        "config",
        "auth",
        "web",
        "telemetry",
        "upkeep",
        "delivery",
        "journal",
        "lake",
        "dialects",
        "dialects.*",
        "console",
        "monitor",
        "operations",
        "permissions",
    }
    | {"storage.*", "storage.skew"},
    "cli": {"core", "clock", "catalog", "broker", "config", "server", "storage.base", "storage.*", "auth", "journal"}
    | {
        "durable",
        "spark",
        "lake",
        "report",
        "storage.checking",
        "storage.dump",
        "storage.migrating",
        "permissions",
        "workers",
    },
}
"""What each part may import besides itself and the package root; `.*` stands for each folder of its own."""

SPLIT = ("storage", "dialects")
"""Folders whose own folders are parts that must not know each other."""

PURE = {
    "base64", "binascii", "bisect", "collections", "cryptography", "dataclasses", "enum", "functools", "hashlib",
    "heapq", "hmac", "itertools", "json", "math", "msgspec", "operator", "re", "struct", "threading", "typing",
}  # fmt: skip
"""All that the core needs from outside: no clock, no dice, no files, no sockets, no threads but for a lock."""


def part_of(name: str) -> str:
    """`couriermq.storage.sqlite.store` belongs to `storage.sqlite`; a module of the package root belongs to no part."""
    first, *rest = [*name.split(".")[1:], ""]
    if not (PACKAGE / first).is_dir() and not (PACKAGE / f"{first}.py").is_file():
        return ""
    below = rest[0] if rest else ""
    owns_folder = first in SPLIT and below and (PACKAGE / first / below).is_dir()
    return f"{first}.{below}" if owns_folder or (first, below) == ("storage", "base") else first


def rule_of(part: str) -> str:
    """The line of the table that a part stands under."""
    folder, dot, _ = part.partition(".")
    return f"{folder}.*" if dot and part != "storage.base" else part


def allowed(module: str, target: str) -> bool:
    part, other = part_of(module), part_of(target)
    return other in {part, ""} or any(_covers(wanted, target) for wanted in MAY_IMPORT[rule_of(part)])


def _covers(wanted: str, target: str) -> bool:
    """Whether a line of the table speaks of the part that `target` is in, or of just that module."""
    is_inside = "." in wanted and f"{target}.".startswith(f"couriermq.{wanted}.")
    return is_inside or rule_of(part_of(target)) == wanted


def wrong_arrows(module: Module) -> list[str]:
    ours = [name for name in imports_of(module) if name.split(".")[0] == "couriermq"]
    return [target for target in ours if not allowed(module.name, target)]


def test_every_part_of_courier_has_its_place_in_the_table() -> None:
    parts = {part_of(module.name) for module in modules()} - {"", "storage"}
    assert {part for part in parts if rule_of(part) not in MAY_IMPORT} == set()


def test_modules_import_only_what_stands_further_in() -> None:
    placed = [module for module in modules() if part_of(module.name) not in {"", "storage"}]
    wrong = {module.name: arrows for module in placed if (arrows := wrong_arrows(module))}
    assert wrong == {}


def test_the_core_imports_no_clock_no_randomness_and_no_io() -> None:
    core = [module for module in modules() if module.name.startswith("couriermq.core")]
    outside = {name.split(".")[0] for module in core for name in imports_of(module)} - {"couriermq"}
    assert outside - PURE == set()


def test_nothing_that_the_server_needs_imports_spark() -> None:
    """The command line names Spark's types; that it loads without Spark is shown beside the connector."""
    loads_spark = {"pyspark", "py4j"}
    offenders = [
        module.name
        for module in modules()
        if not module.name.startswith(("couriermq.spark", "couriermq.cli"))
        and loads_spark & {name.split(".")[0] for name in imports_of(module)}
    ]
    assert offenders == []


def test_no_module_shadows_the_standard_library() -> None:
    top = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"} - {"__init__", "__main__"}
    assert top & sys.stdlib_module_names == set()


@pytest.mark.parametrize(
    ("module", "target", "expected"),
    [
        ("couriermq.core.retry", "couriermq.core.model", True),
        ("couriermq.core.retry", "couriermq.clock", False),
        ("couriermq.storage.sqlite.store", "couriermq.telemetry.histogram.Histogram", True),
        ("couriermq.storage.sqlite.store", "couriermq.telemetry.traffic", False),
        ("couriermq.dialects.native.routes", "couriermq.__version__", True),
        ("couriermq.storage.sqlite.store", "couriermq.storage.base", True),
        ("couriermq.storage.sqlite.store", "couriermq.storage.engine", False),
        ("couriermq.storage.sqlite.store", "couriermq.broker", False),
        ("couriermq.dialects.native.routes", "couriermq.broker", True),
        ("couriermq.dialects.native.routes", "couriermq.storage.base", False),
        ("couriermq.dialects.native.routes", "couriermq.dialects.cloudflare.wire", False),
        ("couriermq.broker", "couriermq.dialects.native.wire", False),
        ("couriermq.server", "couriermq.storage.sqlite.store", True),
        ("couriermq.server", "couriermq.cli.main", False),
    ],
)
def test_the_table_says_what_the_design_says(module: str, target: str, expected: bool) -> None:
    assert allowed(module, target) is expected
