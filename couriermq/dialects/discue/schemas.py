"""Discue's own schema language: what a queue's messages must look like.

A schema is a map from property to directives, `{"total": {"type": "number", "min": 0}}`, and is itself strict: a
property that it does not name fails. Patterns are matched by RE2, in linear time, so that no schema can stop a server.
"""

import hashlib
import re
from functools import lru_cache
from typing import Any

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Json, Queue
from couriermq.core.parsing import NESTING, UNREADABLE, is_too_deep
from couriermq.core.surrogates import document_of, replaced, text_bytes
from couriermq.dialects.discue import limits

ANNOTATION = "discue.schema"
"""The annotation that keeps a queue's schema."""

Schema = dict[str, Any]

DIRECTIVES = {
    "object": {"type", "required", "props", "strict"},
    "array": {"type", "required", "items"},
    "string": {"type", "required", "pattern", "enum", "min", "max"},
    "number": {"type", "required", "min", "max"},
}
LARGEST = 2**53
"""Beyond it, JSON's numbers are not exact."""
SLASHED = re.compile(r"/(.*)/([a-z]*)", re.DOTALL)
FLAGS = {"i": "i", "m": "m", "s": "s", "g": "", "u": "", "y": ""}
"""What JavaScript's flags are to RE2; the rest changes nothing for a test."""


def schema_of(queue: Queue) -> Schema | None:
    """The schema of a queue; an annotation can be written by others, too, and one that is no schema is passed over."""
    kept = queue.annotations.get(ANNOTATION)
    return None if kept is None else _checked(msgspec.json.encode(kept))


@lru_cache(maxsize=1_000)
def _checked(document: bytes) -> Schema | None:
    try:
        return check_schema(msgspec.json.decode(document)) or None
    except Invalid:
        return None


def schema_id(schema: Schema) -> str:
    """The same for the same schema, however its keys are ordered."""
    return hashlib.sha256(msgspec.json.encode(schema, order="sorted")).hexdigest()


# -- is it a schema? ------------------------------------------------------------------------------------------


def check_schema(schema: Json) -> Schema:
    """Raise Invalid, with the place, for what could not be a schema."""
    if not isinstance(schema, dict):
        raise _refused("schema", "is a map from property to directives")
    if is_too_deep(schema):
        raise _refused("schema", f"is nested at most {NESTING} times")
    if len(msgspec.json.encode(schema)) > limits.SCHEMA_BYTES:
        raise _refused("schema", f"has at most {limits.SCHEMA_BYTES} bytes")
    count = sum(_check_directives(directives, f"schema.{name}", 1) for name, directives in schema.items())
    if count > limits.SCHEMA_DIRECTIVES:
        raise _refused("schema", f"describes at most {limits.SCHEMA_DIRECTIVES} values")
    return schema


def _check_directives(directives: Json, place: str, depth: int) -> int:
    """How many values the directives describe."""
    if depth > limits.SCHEMA_DEPTH:
        raise _refused(place, f"is nested more than {limits.SCHEMA_DEPTH} deep")
    kind = directives.get("type") if isinstance(directives, dict) else None
    if not isinstance(kind, str) or kind not in DIRECTIVES:
        raise _refused(place, f"has a type: {', '.join(DIRECTIVES)}")
    if unknown := set(directives) - DIRECTIVES[kind]:
        raise _refused(place, f"is of type {kind}, which has no directive {min(unknown)!r}")
    for flag in ("required", "strict"):
        if not isinstance(directives.get(flag, True), bool):
            raise _refused(f"{place}.{flag}", "is true or false")
    if kind == "object":
        return 1 + _check_props(directives, place, depth)
    if kind == "array":
        return 1 + _check_directives(directives.get("items"), f"{place}.items", depth + 1)
    _check_bounds(directives, place, whole=kind == "string")
    if kind == "string":
        _check_text(directives, place)
    return 1


def _check_props(directives: Schema, place: str, depth: int) -> int:
    props = directives.get("props")
    if not isinstance(props, dict) or not props:
        raise _refused(place, "names at least one property in props")
    return sum(_check_directives(inner, f"{place}.{name}", depth + 1) for name, inner in props.items())


def _check_bounds(directives: Schema, place: str, *, whole: bool) -> None:
    low, high = directives.get("min"), directives.get("max")
    for name, bound in (("min", low), ("max", high)):
        if bound is None:
            continue
        if not _is_number(bound) or abs(bound) > LARGEST or (whole and (bound < 0 or bound != int(bound))):
            raise _refused(f"{place}.{name}", "is a count of characters" if whole else "is a number up to 2^53")
    if low is not None and high is not None and low > high:
        raise _refused(place, "has a min that is more than its max")


def _check_text(directives: Schema, place: str) -> None:
    choices, pattern = directives.get("enum"), directives.get("pattern")
    if choices is not None and not (
        isinstance(choices, list) and choices and all(isinstance(one, str) for one in choices)
    ):
        raise _refused(f"{place}.enum", "is a list of strings")
    if pattern is None:
        return
    if not isinstance(pattern, str) or len(pattern) > limits.PATTERN_CHARS:
        raise _refused(f"{place}.pattern", f"is a regular expression of at most {limits.PATTERN_CHARS} characters")
    try:
        matches(pattern, "")
    except ValueError as error:
        raise _refused(f"{place}.pattern", f"is not a regular expression of RE2: {error}") from None


def _refused(place: str, sentence: str) -> Invalid:
    return Invalid(f"{place} {sentence}", field="schema")


# -- does a message fit? --------------------------------------------------------------------------------------


def check_data(schema: Schema, data: str) -> None:
    """Raise Invalid, with the place, for data that the schema does not allow."""
    try:
        value = document_of(text_bytes(data))
    except UNREADABLE:
        raise Invalid("the queue has a schema, and data is not JSON", field="data") from None
    _check_object(value, schema, "data", strict=True)


def _check_value(value: Json, directives: Schema, place: str) -> None:
    if value is None:
        if directives.get("required", True):
            raise _misfit(place, "is required")
        return
    match directives["type"]:
        case "object":
            _check_object(value, directives["props"], place, strict=directives.get("strict", True))
        case "array":
            _check_array(value, directives["items"], place)
        case "string":
            _check_string(value, directives, place)
        case "number":
            _check_number(value, directives, place)


def _check_object(value: Json, props: Schema, place: str, *, strict: bool) -> None:
    if not isinstance(value, dict):
        raise _misfit(place, "must be an object")
    if strict and (unknown := value.keys() - props.keys()):
        raise _misfit(f"{place}.{min(unknown)}", "is not in the schema")
    for name, directives in props.items():
        _check_value(value.get(name), directives, f"{place}.{name}")


def _check_array(value: Json, items: Schema, place: str) -> None:
    if not isinstance(value, list):
        raise _misfit(place, "must be an array")
    for index, item in enumerate(value):
        _check_value(item, items, f"{place}[{index}]")


def _check_string(value: Json, directives: Schema, place: str) -> None:
    if not isinstance(value, str):
        raise _misfit(place, "must be a string")
    _check_size(len(value), directives, place, "characters")
    choices, pattern = directives.get("enum"), directives.get("pattern")
    if choices is not None and value not in choices:
        raise _misfit(place, "is none of the allowed values")
    if pattern is not None and not matches(pattern, replaced(value)):
        raise _misfit(place, "does not match the pattern")


def _check_number(value: Json, directives: Schema, place: str) -> None:
    if not _is_number(value):
        raise _misfit(place, "must be a number")
    _check_size(value, directives, place, "")


def _check_size(size: float, directives: Schema, place: str, unit: str) -> None:
    low, high = directives.get("min"), directives.get("max")
    if low is not None and size < low:
        raise _misfit(place, f"must have at least {low} {unit}" if unit else f"must be at least {low}")
    if high is not None and size > high:
        raise _misfit(place, f"must have at most {high} {unit}" if unit else f"must be at most {high}")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _misfit(place: str, sentence: str) -> Invalid:
    return Invalid(f"{place} {sentence}", field="data")


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern, bare or as `/pattern/flags`, is found in the text; raises ValueError for a bad one."""
    import pyarrow  # noqa: PLC0415 - it takes a while to load, and few queues have a pattern
    import pyarrow.compute  # noqa: PLC0415

    if slashed := SLASHED.fullmatch(pattern):
        body, flags = slashed.groups()
        if unknown := set(flags) - FLAGS.keys():
            raise ValueError(f"the flag {min(unknown)!r} is unknown")
        ours = "".join(FLAGS[flag] for flag in dict.fromkeys(flags))
        pattern = f"(?{ours}){body}" if ours else body
    # An array of no strings would not compile the pattern.
    found = pyarrow.compute.match_substring_regex(pyarrow.array([text], pyarrow.large_string()), pattern)
    return bool(found[0].as_py())
