"""The kinds of values that options take, each read in one place."""

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, Token

from couriermq import config
from couriermq.cli.exits import usage
from couriermq.cli.quantities import read_duration, read_size
from couriermq.config import ConfigError
from couriermq.core.model import Attribute

UNLIMITED = "unlimited"
_NUMBER = re.compile(r"-\.?\d")


def _read_duration(_: object, tokens: Sequence[Token]) -> int:
    return read_duration(tokens[0].value)


def _read_size(_: object, tokens: Sequence[Token]) -> int:
    return read_size(tokens[0].value)


def _read_limit(_: object, tokens: Sequence[Token]) -> int | str:
    text = tokens[0].value
    if text != UNLIMITED and not text.isdecimal():
        raise ValueError(f"{text!r} is not a number; write it as 5 or unlimited")
    return text if text == UNLIMITED else int(text)


def _read_text(_: object, tokens: Sequence[Token]) -> str:
    return _no_option(tokens[0].value, "-")


def _read_receipt(_: object, tokens: Sequence[Token]) -> str:
    return _no_option(tokens[0].value, "--")  # one receipt in sixty-four begins with a hyphen


def _read_secret(_: object, tokens: Sequence[Token]) -> str:
    token = tokens[0]
    return secret_text(token.value) if token.source == "cli" else token.value  # a variable holds the secret itself


def secret_text(text: str) -> str:
    """A secret that a command line names: `-` reads it from standard input, `@FILE` from a file."""
    if text == "-":
        return sys.stdin.readline().rstrip("\r\n")
    return read_secret_file(Path(text[1:])) if text.startswith("@") else text


def read_secret_file(path: Path) -> str:
    try:
        return config.read_secret_file(path)
    except ConfigError as error:
        raise usage(str(error)) from None


def _no_option(text: str, mark: str) -> str:
    """The text, unless it rather is a misspelt option; after a lone `--` anything is a text."""
    if text.startswith(mark) and text != "-" and not _NUMBER.match(text) and "--" not in sys.argv:
        raise ValueError(f"{text} is not an option; if it is what you mean, put -- before it")
    return text


Duration = Annotated[int, Parameter(converter=_read_duration, metavar="DURATION", show_default=False)]
Size = Annotated[int, Parameter(converter=_read_size, metavar="SIZE", show_default=False)]
Limit = Annotated[int | str, Parameter(converter=_read_limit, metavar="N|unlimited")]
QueueName = Annotated[str, Parameter(help="The queue's name or id.", metavar="QUEUE")]
Text = Annotated[str, Parameter(converter=_read_text, allow_leading_hyphen=True)]
SecretText = Annotated[str, Parameter(converter=_read_secret, allow_leading_hyphen=True)]
"""Takes a secret; `-` reads it from standard input, `@FILE` from a file, so that no list of processes shows it."""
Receipts = Annotated[
    str,
    Parameter(
        converter=_read_receipt,
        allow_leading_hyphen=True,
        help="Receipts as `receive` prints them; - reads them from standard input.",
    ),
]
Flag = Annotated[bool, Parameter(show_default=False)]
Yes = Annotated[Flag, Parameter(alias="-y", help="Do not ask; needed where there is no terminal.")]
Attributes = Annotated[list[str] | None, Parameter(alias="-a", metavar="NAME=VALUE")]


def check_count(option: str, count: int | None, *, least: int = 0) -> None:
    """Refuse a number of things that cannot be."""
    if count is not None and count < least:
        raise usage(f"{option} is {count}; choose a number from {least} on")


def read_value(text: str) -> Attribute:
    """A JSON number, true or false means itself; everything else is a string, quoted or not."""
    try:
        value: Any = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return text
    return value if isinstance(value, str | int | float) else text


def read_attributes(pairs: Iterable[str] | None) -> dict[str, Attribute]:
    """`region=eu priority=5 urgent=true` as a string, a number and a boolean."""
    return dict(map(read_attribute, pairs or ()))


def read_attribute(pair: str) -> tuple[str, Attribute]:
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise usage(f"{pair!r} is not an attribute; write it as name=value")
    return name, read_value(value)


def read_pairs(pairs: Iterable[str] | None, noun: str) -> dict[str, str]:
    """`name=value` pairs whose values are always strings."""
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise usage(f"{pair!r} is not {noun}; write it as name=value")
        found[name] = value
    return found
