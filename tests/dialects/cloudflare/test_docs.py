"""The page about the Cloudflare dialect leaves nothing out."""

from pathlib import Path

from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.dialect import Cloudflare
from couriermq.dialects.cloudflare.errors import Code
from couriermq.dialects.cloudflare.routes import ACCOUNT, QUEUE

PAGE = (Path(__file__).parents[3] / "docs" / "dialects" / "cloudflare.md").read_text()


def test_every_path_is_on_the_page() -> None:
    for route in Cloudflare().routes:
        shown = route.pattern.removeprefix(QUEUE).removeprefix(ACCOUNT).replace("{consumer_id}", "{id}")
        assert shown.replace("{subscription_id}", "{id}") in PAGE, route.pattern


def test_every_code_is_on_the_page() -> None:
    codes = [value for name, value in vars(Code).items() if name.isupper()]
    assert [code for code in codes if str(code) not in PAGE] == []


def test_every_limit_is_on_the_page() -> None:
    figures = [
        limits.MESSAGE_BYTES,
        limits.BATCH_BYTES,
        limits.LEASE_MS,
        limits.DELAY_S,
        *limits.RETENTION_S,
        limits.REF_COUNT,
    ]
    assert [figure for figure in figures if f"{figure:,}" not in PAGE] == []
