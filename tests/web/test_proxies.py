"""Behind reverse proxies: who calls, and under which URL the caller finds the server."""

from pathlib import Path

import pytest

from couriermq.config import ConfigError, load
from couriermq.web.proxies import Origin, Proxies, site_of
from tests.support.inprocess import courier_app

PROXIES = Proxies(["10.0.0.0/8", "2001:db8::/32"])
PROXY = "10.0.0.1"


def origin(peer: str = PROXY, **headers: str) -> Origin:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return PROXIES.origin(peer, named)


@pytest.mark.parametrize(
    ("hops", "client"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, 10.0.0.2", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7, 10.1.2.3,10.0.0.2", "198.51.100.7"),
        ("198.51.100.7:4711", "198.51.100.7"),
        ("[2001:db9::1]:4711", "2001:db9::1"),
        ("2001:db9::1", "2001:db9::1"),
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("198.51.100.7, unknown", PROXY),
        ("198.51.100.7, unknown, 10.0.0.2", "10.0.0.2"),
        ("", PROXY),
        (", ,", PROXY),
    ],
)
def test_the_client_is_the_right_most_hop_that_is_no_trusted_proxy(hops: str, client: str) -> None:
    assert origin(x_forwarded_for=hops).address == client


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("for=198.51.100.7", "198.51.100.7"),
        ('For="198.51.100.7:80";proto=https, for=10.0.0.2', "198.51.100.7"),
        ('for="[2001:db9::1]:4711"', "2001:db9::1"),
        ('for="203.0.113.9, for=203.0.113.8", for=198.51.100.7', "198.51.100.7"),
        ("for=198.51.100.7, for=_hidden", PROXY),
        ("for=198.51.100.7, proto=https", PROXY),
        ("for=198.51.100.7;;;=, for", PROXY),
    ],
)
def test_forwarded_names_the_client_too(forwarded: str, client: str) -> None:
    assert origin(forwarded=forwarded).address == client


def test_a_header_that_the_proxy_only_passes_on_does_not_forge_an_address() -> None:
    assert origin(forwarded="for=203.0.113.9", x_forwarded_for="198.51.100.7").address == PROXY
    assert origin(forwarded="for=198.51.100.7", x_forwarded_for="198.51.100.7").address == "198.51.100.7"


def test_only_a_trusted_proxy_is_believed() -> None:
    spoofed = {"x_forwarded_for": "203.0.113.9", "x_forwarded_proto": "https", "x_forwarded_host": "evil.example"}
    assert origin("198.51.100.7", **spoofed) == Origin("198.51.100.7")
    assert Proxies().origin(PROXY, [(b"x-forwarded-for", b"203.0.113.9")]) == Origin(PROXY)


def test_several_header_lines_are_one_list() -> None:
    headers = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-for", b"198.51.100.7")]
    assert PROXIES.origin("::ffff:10.0.0.1", headers).address == "198.51.100.7"


def test_the_outermost_trusted_proxy_knows_the_url() -> None:
    two = origin(
        x_forwarded_for="198.51.100.7, 10.0.0.2",
        x_forwarded_proto="https, http",
        x_forwarded_host="mq.example, inner:8080",
        x_forwarded_prefix="/queues",
    )
    assert two == Origin("198.51.100.7", "https", "mq.example", "/queues")
    forwarded = origin(forwarded='for=198.51.100.7;proto=HTTPS;host="mq.example:8443", for=10.0.0.2;host=inner')
    assert forwarded == Origin("198.51.100.7", "https", "mq.example:8443")


def test_what_a_client_writes_before_the_proxy_appends_does_not_count() -> None:
    seen = origin(x_forwarded_for="198.51.100.7", x_forwarded_proto="http, https", x_forwarded_host="evil, mq.example")
    assert (seen.scheme, seen.host) == ("https", "mq.example")


@pytest.mark.parametrize("host", ["a b", "evil/path", "x@y", "a\nb", "a" * 300, "<script>", ""])
def test_a_host_that_is_none_does_not_get_into_links(host: str) -> None:
    assert origin(x_forwarded_host=host).host is None


@pytest.mark.parametrize(
    "prefix", ["//evil.example", "queues", "/a b", "/a\r\nx: y", "/" + "a" * 300, "/", "", "/a//b"]
)
def test_a_prefix_that_is_no_path_does_not_get_into_links(prefix: str) -> None:
    assert origin(x_forwarded_prefix=prefix).prefix == ""


def test_one_client_has_a_whole_network_of_ipv6_addresses() -> None:
    assert site_of("2001:db9::1") == site_of("2001:db9::2:3") != site_of("2001:db9:0:1::1")
    assert site_of("::ffff:198.51.100.7") == site_of("198.51.100.7") != site_of("198.51.100.8")
    assert site_of("") == ""


def test_a_network_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="trusted_proxies has 'proxy', which is not a network"):
        load(flags={"trusted_proxies": "10.0.0.0/8, proxy"})


HEADERS = {
    "host": "inner:8080",
    "x-forwarded-for": "198.51.100.7",
    "x-forwarded-proto": "https",
    "x-forwarded-host": "mq.example",
    "x-forwarded-prefix": "/queues/",
}
NEW_QUEUE = {"name": "orders"}
REGIONS = "/mq/admin/api/v1/organizations/default/environments/default/regions"


async def test_links_lead_through_the_proxy(tmp_path: Path) -> None:
    async with courier_app(tmp_path, trusted_proxies=("127.0.0.0/8",)) as app:
        made = await app.post("/courier/v1/tenants/default/queues", NEW_QUEUE, headers=HEADERS)
        assert made.headers["location"] == "/queues/courier/v1/tenants/default/queues/orders"
        (region,) = (await app.get(REGIONS, headers=HEADERS)).json()
        assert region["serviceUrl"] == "https://mq.example/queues/api/v1"
        listed = await app.get("/v1/queues", headers=HEADERS | {"x-api-key": "root-token"})
        assert listed.json()["_links"]["self"]["href"] == "https://mq.example/queues/queues"
        index = (await app.get("/openapi", headers=HEADERS, token=None)).json()["documents"]
        for entry in index:
            assert entry["url"].startswith("/queues/openapi/")
            document = await app.get(entry["url"].removeprefix("/queues"), headers=HEADERS, token=None)
            assert document.json()["servers"][0]["url"] == "/queues/"


async def test_a_next_page_leads_through_the_proxy(tmp_path: Path) -> None:
    async with courier_app(tmp_path, trusted_proxies=("127.0.0.1",)) as app:
        headers = HEADERS | {"x-api-key": "root-token"}
        for name in ("one", "two"):
            await app.post("/courier/v1/tenants/default/queues", {"name": name})
        listed = await app.get("/v1/queues?per_page=1", headers=headers)
        assert listed.headers["link"].startswith("<https://mq.example/queues/queues?")


async def test_a_stranger_cannot_change_links(tmp_path: Path) -> None:
    async with courier_app(tmp_path, trusted_proxies=("10.0.0.0/8",)) as app:
        made = await app.post("/courier/v1/tenants/default/queues", NEW_QUEUE, headers=HEADERS)
        assert made.headers["location"] == "/courier/v1/tenants/default/queues/orders"
        (region,) = (await app.get(REGIONS, headers=HEADERS)).json()
        assert region["serviceUrl"] == "http://inner:8080/api/v1"
        listed = await app.get("/v1/queues", headers=HEADERS | {"x-api-key": "root-token"})
        assert listed.json()["_links"]["self"]["href"] == "http://inner:8080/queues"
