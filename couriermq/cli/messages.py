"""A message as people look at it."""

from typing import Any

from couriermq.cli.client import body_of
from couriermq.cli.quantities import show_age, show_count, show_size
from couriermq.cli.screen import Cell, Screen, Styled, harmless, one_line

STATE_STYLES = {"ready": "green", "delayed": "cyan", "leased": "yellow"}
Json = dict[str, Any]


def show_message(screen: Screen, message: Json, *, now: int, extra: tuple[tuple[str, str], ...] = ()) -> None:
    """The whole message: a line about it, its attributes, its body, and what else the caller knows."""
    screen.line(f"{message['id']}  {_summary(message, now)}", style="bold")
    if message["attributes"]:
        screen.line("  ".join(f"{name}={_value(value)}" for name, value in message["attributes"].items()), style="cyan")
    if death := message.get("death"):
        place = death["source_queue"] or "a deleted queue"
        screen.line(f"died in {place} after {show_count(death['attempts'], 'attempt')}: {death['reason']}", style="red")
    screen.line(show_body(message))
    for name, value in extra:
        screen.line(f"{name}: {value}", style="dim")
    screen.line("")


def _summary(message: Json, now: int) -> str:
    parts = [
        f"seq {message['seq']}",
        f"attempt {message['attempts']}" if message["attempts"] else message["state"],
        f"{show_age(now - message['sent_at'])} old",
        message["content_type"],
        show_size(message["size"]),
    ]
    if group := message.get("group"):
        parts.append(f"group {group}")
    return " · ".join(parts)


def _value(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_body(message: Json) -> str:
    """The body as text, or in words where it is not text."""
    if "body_base64" in message:
        return f"({show_size(message['size'])} of bytes; see --raw or --json)"
    return harmless(str(message["body"]))


def preview(message: Json, width: int = 200) -> Cell:
    """The beginning of the body on one line."""
    if "body_base64" in message:
        return Styled(body_of(message)[:16].hex(" "), "dim")
    return one_line(str(message["body"])[:width])


def show_state(state: str) -> Cell:
    return Styled(state, STATE_STYLES.get(state, ""))
