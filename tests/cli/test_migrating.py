"""What `courier migrate` says shows no password."""

import json
from typing import Any

import pytest

from couriermq.cli import migrating
from couriermq.cli.app import main

PASSWORD = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"postgresql://courier:{PASSWORD}@db1:5433/shop?sslmode=require", "postgresql://courier@db1:5433/shop"),
        (f"postgresql://db1/shop?user=courier&password={PASSWORD}", "postgresql://courier@db1/shop"),
        (f"postgres://courier:{PASSWORD}@db1:5432,db2:5433/shop", "postgresql://courier@db1:5432,db2:5433/shop"),
        (f"postgresql://courier:{PASSWORD}@[::1]:5432/shop", "postgresql://courier@[::1]:5432/shop"),
        (f"postgresql://courier:{PASSWORD}@/shop?host=/run/pg", "postgresql://courier@%2Frun%2Fpg/shop"),
    ],
)
def test_the_document_shows_an_address_without_its_password(
    url: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def copied(*_: Any, **__: Any) -> tuple[int, int]:
        return 1, 2

    monkeypatch.setattr(migrating, "_migrate", copied)
    assert main(["migrate", "--from", "sqlite:courier-data", "--to", url, "--json"]) == 0
    told, noted = capsys.readouterr()
    assert json.loads(told) == {"from": "sqlite:courier-data", "to": shown, "message_count": 1, "event_count": 2}
    assert PASSWORD not in noted


@pytest.mark.parametrize("option", ["--from", "--to"])
def test_a_mistyped_address_is_not_repeated(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    urls = {"--from": "sqlite:courier-data", "--to": "sqlite:other"}
    urls[option] = f"postgresq://courier:{PASSWORD}@db1/shop"
    assert main(["migrate", *(word for pair in urls.items() for word in pair)]) == 1
    told = "".join(capsys.readouterr())
    assert f"{option} is no store; write sqlite:DIR or postgresql://" in told
    assert PASSWORD not in told
