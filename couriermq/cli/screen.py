"""What a command prints: tables for people, JSON for programs, notes beside the result.

On a terminal tables are drawn by rich and fitted to its width; anywhere else they are plain lines, one a row, so that
`grep` and `cut` find whole rows. What came from messages and names is made harmless first: a body must not be able to
move the cursor of whoever looks at it.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from couriermq.cli.exits import Exit, Failure, usage

if TYPE_CHECKING:
    from rich.console import Console

Json = Any
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_GAP = "  "


class Column(NamedTuple):
    title: str
    right: bool = False
    fold: bool = False
    """A narrow terminal may break it over several lines."""
    cut: bool = False
    """A narrow terminal may leave out its end."""


class Styled(NamedTuple):
    """A text with the style that a terminal gives it."""

    text: str
    style: str


Cell = str | Styled


def harmless(text: str) -> str:
    """The text with its control characters spelled out."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def one_line(text: str) -> str:
    return harmless(text.replace("\r\n", "⏎").replace("\n", "⏎").replace("\t", " "))


class Screen:
    """Where results go (standard output) and where words about them go (standard error)."""

    def __init__(self, *, json: bool = False) -> None:
        self.json = json

    @property
    def is_terminal(self) -> bool:
        return sys.stdout.isatty() and not self.json

    def console(self, *, stderr: bool = False) -> "Console":
        from rich.console import Console  # noqa: PLC0415 - programs that read JSON never need it

        return Console(stderr=stderr, highlight=False, markup=False, emoji=False)

    # -- results ----------------------------------------------------------------------------------------------

    def document(self, value: Json) -> None:
        """One JSON document, indented."""
        sys.stdout.write(_encode(value, indent=2) + "\n")

    def record(self, value: Json) -> None:
        """One JSON document on one line, for streams of them."""
        sys.stdout.write(_encode(value) + "\n")
        sys.stdout.flush()

    def tell(self, document: Json, sentence: str) -> None:
        """One result: the document for programs, the sentence for people."""
        if self.json:
            self.document(document)
        else:
            self.line(sentence)

    def line(self, text: str, style: str = "") -> None:
        if style and self.is_terminal:
            self.console().print(harmless(text), style=style, soft_wrap=True)
        else:
            sys.stdout.write(harmless(text) + "\n")

    def marked(self, mark: str, style: str, text: str) -> None:
        """A line that begins with a coloured word; what does not fit is indented below."""
        if not self.is_terminal:
            self.line(mark + text)
            return
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        row = Table.grid()
        row.add_row(Text(mark, style=style), Text(harmless(text)))
        self.console().print(row)

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
        if self.is_terminal:
            self.console().print(drawn(columns, rows))
        else:
            sys.stdout.writelines(line + "\n" for line in aligned(columns, rows))

    def sheet(self, title: str, facts: Sequence[tuple[str, Cell]]) -> None:
        """One thing: what it is, then its facts, one a line."""
        self.line(title, style="bold")
        width = max((len(name) for name, _ in facts), default=0)
        for name, cell in facts:
            self.line(f"{_GAP}{name:<{width}}{_GAP}{_text(cell)}")

    # -- words about results ----------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """A word for people, apart from the result."""
        if not self.json:
            sys.stderr.write(harmless(text) + "\n")

    def warn(self, text: str) -> None:
        """Something that failed beside what went well; programs hear it too."""
        sys.stderr.write(f"courier: {harmless(text)}\n")

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before something is lost; without a terminal there is nobody to ask, so the command must have --yes."""
        self.require_answer(question, yes=yes)
        if yes:
            return
        sys.stderr.write(f"{harmless(question)} [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Failure("left as it is", Exit.FAILED)

    def require_answer(self, question: str, *, yes: bool) -> None:
        """Refuse a question that nobody can answer; for commands whose own question comes after long work."""
        if not yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise usage(f"{question} There is no terminal to ask on: add --yes to do it")

    @contextmanager
    def busy(self, words: str) -> Iterator[None]:
        """Say on standard error what takes so long, while somebody watches."""
        if self.json or not sys.stderr.isatty():
            yield
            return
        with self.console(stderr=True).status(words):
            yield


def _encode(value: Json, indent: int | None = None) -> str:
    """JSON that can be read, but whose control characters, the rare ones too, stay escaped."""
    return _CONTROL.sub(_escape, json.dumps(value, indent=indent, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def aligned(columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> Iterator[str]:
    """The lines of a table without any drawing, however wide they get."""
    texts = [[column.title for column in columns], *([one_line(_text(cell)) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    for row in texts:
        cells = (
            text.rjust(width) if column.right else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        )
        yield _GAP.join(cells).rstrip()


def drawn(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, caption: str | None = None) -> Any:
    """The table as rich draws it on a terminal."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title=caption)
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            overflow="fold" if column.fold else "ellipsis",
            no_wrap=not (column.fold or column.cut),
        )
    for row in rows:
        cells = zip(row, columns, strict=True)
        table.add_row(
            *(Text(one_line(_text(cell)), style=_style(cell), no_wrap=not column.fold) for cell, column in cells)
        )
    return table


def _text(cell: Cell) -> str:
    return cell.text if isinstance(cell, Styled) else cell


def _style(cell: Cell) -> str:
    return cell.style if isinstance(cell, Styled) else ""
