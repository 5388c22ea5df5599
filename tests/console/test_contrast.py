"""Every text colour can be read on every surface, in both themes, in the console and in the reference at `/docs`."""

import re
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "couriermq"
TEXT, MARK = 4.5, 3.0
"""The least contrast that WCAG 2.2 AA asks of texts, and of controls and pictures."""

TEXTS = ("ink", "soft", "accent", "good", "warn", "bad", "violet")
SURFACES = ("paper", "wash", "raise")
TINTED = ("accent", "good", "warn", "bad", "violet")
REFERENCE_TEXTS = ("ink", "soft", "faint", "accent", "get", "post", "put", "patch", "delete", "good", "warn", "bad")
REFERENCE_SURFACES = ("paper", "wash", "accent-wash")
CODE_TEXTS = ("code-ink", "key", "string", "number", "word")

Theme = dict[str, str]


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def console_theme(which: int) -> Theme:
    css = (ROOT / "console/style/theme.css").read_text()
    found = re.findall(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", css)
    return {name: colours[which] for name, *colours in found}


def reference_theme(which: int) -> Theme:
    css = (ROOT / "dialects/reference/page.css").read_text()
    light, dark = css.split(':root[data-theme="dark"]', 1)
    colours = re.compile(r"--([a-z-]+): (#[0-9a-f]{6})")
    return dict(colours.findall(light)) | (dict(colours.findall(dark.split("@media", 1)[0])) if which else {})


def too_weak(theme: Theme, pairs: list[tuple[str, str]], least: float) -> dict[tuple[str, str], float]:
    figures = {pair: contrast(theme[pair[0]], theme[pair[1]]) for pair in pairs}
    return {pair: round(figure, 2) for pair, figure in figures.items() if figure < least}


@pytest.mark.parametrize("which", [0, 1], ids=["light", "dark"])
def test_texts_of_the_console_can_be_read(which: int) -> None:
    theme = console_theme(which)
    pairs = [*product(TEXTS, SURFACES), *((name, f"{name}-wash") for name in TINTED), ("ink", "accent-wash")]
    pairs += [("soft", "accent-wash"), ("on-fill", "fill"), ("on-fill-bad", "fill-bad"), ("paper", "ink")]
    assert too_weak(theme, pairs, TEXT) == {}


@pytest.mark.parametrize("which", [0, 1], ids=["light", "dark"])
def test_controls_and_marks_of_the_console_can_be_seen(which: int) -> None:
    theme = console_theme(which)
    marks = [name for name in theme if name.startswith("mark-") or name == "edge"]
    assert len(marks) > 5
    assert too_weak(theme, [*product(marks, ("paper", "wash"))], MARK) == {}


@pytest.mark.parametrize("which", [0, 1], ids=["light", "dark"])
def test_texts_of_the_reference_can_be_read(which: int) -> None:
    theme = reference_theme(which)
    pairs = [*product(REFERENCE_TEXTS, REFERENCE_SURFACES), *((name, "code") for name in CODE_TEXTS)]
    assert too_weak(theme, pairs, TEXT) == {}


def test_the_reference_has_the_same_dark_colours_by_choice_and_by_default() -> None:
    css = (ROOT / "dialects/reference/page.css").read_text()
    chosen = css.split(':root[data-theme="dark"]', 1)[1].split("@media", 1)[0]
    default = css.split(':root[data-theme="auto"]', 1)[1].split("color-scheme", 1)[0]
    colours = re.compile(r"--([a-z-]+): (#[0-9a-f]{6})")
    assert dict(colours.findall(chosen)) == dict(colours.findall(default))
