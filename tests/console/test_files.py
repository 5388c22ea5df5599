"""The files of the console as browsers get them."""

import gzip
import re
from pathlib import Path

import pytest

from couriermq.console import pages
from tests.support.inprocess import InProcess, courier_app

INDEX = """\
<!doctype html>
<html data-prefix="{{prefix}}" data-read-only="{{read_only}}" data-store="{{store}}">
<meta name="preload" content="app/main.js vendor/x.js">
{{preload}}
<script type="module" src="{{assets}}/app/main.js"></script>
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "console"
    for name, text in {
        "index.html": INDEX,
        "app/main.js": "run()",
        "style/page.css": "a{}",
        "app/notes.txt": "x",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    monkeypatch.setattr(pages, "is_there", lambda: True)
    monkeypatch.setattr(pages.Console.__init__, "__defaults__", (folder,))
    return folder


async def assets_of(app: InProcess) -> str:
    page = (await app.get("/console", token=None)).body.decode()
    found = re.search(r'src="([^"]*)/app/main.js"', page)
    assert found
    return found[1]


async def test_every_page_is_the_same_html(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        for path in ("/console", "/console/", "/console/queues", "/console/queues/a%2Fb/messages", "/console/tail/"):
            answer = await app.get(path, token=None)
            assert answer.status == 200, path
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert 'data-prefix="" data-read-only="false"' in answer.body.decode()
            assert answer.headers["cache-control"] == "no-cache"
            again = await app.get(path, token=None, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status, again.body) == (304, b"")


async def test_hashed_files_are_kept_for_ever_and_compressed_where_wanted(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        path = await assets_of(app) + "/app/main.js"
        plain = await app.get(path, token=None)
        assert plain.body == b"run()"
        assert plain.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert plain.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "content-encoding" not in plain.headers
        packed = await app.get(path, token=None, headers={"Accept-Encoding": "br, gzip;q=0.5"})
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == b"run()"
        unwanted = await app.get(path, token=None, headers={"Accept-Encoding": "gzip;q=0"})
        assert unwanted.body == b"run()"


async def test_another_version_of_the_files_has_another_path(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        before = await assets_of(app)
    (folder / "style/page.css").write_text("b{}")
    async with courier_app(tmp_path, dialects=("native",)) as app:
        assert await assets_of(app) != before
        assert (await app.get(before + "/app/main.js", token=None)).status == 404


@pytest.mark.parametrize("path", ["/app/notes.txt", "/index.html", "/app", "/../pages.py", "/app/%2e%2e%2findex.html"])
async def test_nothing_but_scripts_and_styles_is_served(tmp_path: Path, folder: Path, path: str) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        assert (await app.get(await assets_of(app) + path, token=None)).status == 404


async def test_the_page_lets_scripts_of_this_server_run_and_no_others(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        policy = (await app.get("/console", token=None)).headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in policy


async def test_below_a_prefix_all_paths_have_it(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",), trusted_proxies=("127.0.0.0/8",)) as app:
        page = await app.get("/console", token=None, headers={"X-Forwarded-Prefix": "/mq"})
        assert 'data-prefix="/mq"' in page.body.decode()
        assert 'src="/mq/console/~' in page.body.decode()
        strange = await app.get("/console", token=None, headers={"X-Forwarded-Prefix": "/mq"}, client="203.0.113.9")
        assert 'data-prefix=""' in strange.body.decode()


async def test_a_setting_names_the_prefix_where_no_proxy_does(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",), console_prefix="/courier") as app:
        assert 'href="/courier/console/~' in (await app.get("/console/map", token=None)).body.decode()


async def test_a_server_without_a_console_has_no_such_page(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",), console_enabled=False) as app:
        assert (await app.get("/console", token=None)).status == 404
        assert (await app.get("/console/session", token=None)).status == 404
        assert "/console" not in (await app.get("/", token=None)).body.decode()


async def test_the_front_page_leads_to_the_console(tmp_path: Path, folder: Path) -> None:
    async with courier_app(tmp_path, dialects=("native",)) as app:
        assert 'href="/console"' in (await app.get("/", token=None)).body.decode()
        assert [link.path for link in app.node.links] == ["/console", "/docs"]
