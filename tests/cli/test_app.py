"""The command as a whole: its commands, its help, and how it ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from couriermq.cli.app import COMMANDS, build, main
from couriermq.cli.exits import Exit

HEAVY = {"pyarrow", "uvicorn", "uvloop", "aiohttp", "couriermq.server"}


def test_help_loads_nothing_heavy() -> None:
    program = "import sys; from couriermq.cli import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    for arguments in (["--help"], ["queues", "--help"], ["serve", "--help"], ["version"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
        assert HEAVY.isdisjoint(done.stderr.split()), arguments


def test_help_tells_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == Exit.OK
    text = capsys.readouterr().out
    assert "Exit codes:" in text
    for code in (0, 1, 2, 3, 4, 5, 130):
        assert f"\n  {code} " in text


def command_lines() -> list[tuple[str, ...]]:
    """Every command, those of groups too."""
    app = build()
    found: list[tuple[str, ...]] = []
    for _, name, place, _ in COMMANDS:
        found.append((name,))
        if place.endswith(":app"):
            found.extend((name, below) for below in app[name] if not below.startswith("-"))
    return found


@pytest.mark.parametrize("command", command_lines(), ids=" ".join)
def test_every_command_explains_itself_and_each_of_its_options(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main([*command, "--help"]) == Exit.OK
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: courier {' '.join(command)}")
    rows = [line.strip("│ \n") for line in text.splitlines() if line.startswith("│ ") and "--" in line]
    assert [row for row in rows if "  " not in row and not row.startswith("--no-")] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["quees"], 'Did you mean "queues"?'),
        (["queues", "list", "--jsn"], "Did you mean --json?"),
        (["queues", "show"], "requires an argument"),
        (["queues", "create", "q", "--lease", "30"], "write it as 30s"),
        (["queues", "create", "q", "--max-attempts", "many"], "5 or unlimited"),
        (["queues", "create", "q", "--max-leased", "few"], "5 or unlimited"),
        (["queues", "change", "q"], "say what to change"),
        (["queues", "change", "q", "--dead-letter-queue", "d", "--no-dead-letter-queue"], "contradict"),
        (["send", "q", "x", "--repeat", "0"], "from 1 on"),
        (["send", "q", "x", "--lines"], "--lines reads from"),
        (["send", "q", "x", "--repeat", "2", "--lines"], "contradict"),
        (["send", "q", "@/no/such/file"], "cannot read /no/such/file"),
        (["send", "q", "x", "--attribute", "novalue"], "write it as name=value"),
        (["send", "q", "--jsn"], "--jsn is not an option"),
        (["ack", "q"], "give their receipts"),
        (["ack", "q", "--jsn"], "--jsn is not an option"),
        (["tenants", "change", "t"], "say what to change"),
        (["journal", "--from", "1", "--last", "1"], "contradict"),
        (["journal", "--kind", "lost"], "choose from sent"),
        (["queues", "list", "--url", "ftp://x"], "is not a URL of a server"),
        (["queues", "list", "--url", "http://x:notaport"], "is not a URL of a server"),
        (["queues", "list", "--url", "http://a b"], "is not a URL of a server"),
        (["queues", "list", "--url", "https://x", "--ca-file", "/no/such/file"], "cannot read the certificates"),
        (["queues", "list", "--token", "snow\N{SNOWMAN}man"], "no token has"),
        (["serve", "--port", "99999"], "a whole number from 0 to 65535"),
        (["serve", "--set", "colour=red"], "'colour' is not a setting"),
        (["serve", "--config", "/no/such/file"], "cannot be read"),
    ],
)
def test_wrong_usage_is_one_sentence_and_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["courier", *arguments])
    assert main() == Exit.USAGE
    complaint = capsys.readouterr().err
    assert complaint.startswith("courier: ")
    assert sentence in complaint
    assert "Traceback" not in complaint


def test_a_server_that_is_not_there_is_code_5_and_says_how_to_start_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["queues", "list", "--url", "http://127.0.0.1:1"]) == Exit.UNAVAILABLE
    assert "start it with `courier serve`" in capsys.readouterr().err


def test_an_interrupt_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("couriermq.cli.client.Client.request", interrupt)
    assert main(["queues", "list"]) == Exit.INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_an_output_that_is_full_is_told_in_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "couriermq.cli", "version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == Exit.FAILED
    assert done.stderr.startswith("courier: No space left on device")
    assert "Traceback" not in done.stderr
