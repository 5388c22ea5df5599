"""Which addresses deliveries may go to, in every way that an address can be spelled."""

import asyncio
import ipaddress

import pytest

from couriermq.core.errors import Invalid
from couriermq.core.redaction import redacted_url
from couriermq.delivery.guard import Guard, Refused, Target, read_url


class Names:
    """A name server that gives its answers in turn; the last one stays."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def resolve(self, host: str, port: int, *, tenant: str = "") -> list[str]:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def guard(*allow: str, names: Names | None = None) -> Guard:
    return Guard(names or Names(["93.184.216.34"]), [ipaddress.ip_network(network) for network in allow])


FORBIDDEN_HOSTS = [
    "127.0.0.1", "127.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
    "127.0.0.1.", "0", "0.0.0.0", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "0xa9fea9fe", "2852039166", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1",
    "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "168.63.129.16", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:10.0.0.1]",
    "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::169.254.169.254]", "[64:ff9b:1::1]", "[2002:7f00:1::]",
    "[2002:a9fe:a9fe::1]", "[2001::1]", "[2001:db8::1]", "[3fff::1]", "[100::1]", "[5f00::1]", "[fc00::1]",
    "[fd00:ec2::254]", "[fe80::1]", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[fec0::1]", "[ff02::1]", "[4000::1]",
    "localhost", "LOCALHOST", "localhost.", "a.localhost", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("host", FORBIDDEN_HOSTS)
def test_an_address_that_is_not_public_is_refused_when_the_url_is_given(host: str) -> None:
    with pytest.raises(Invalid) as refused:
        guard().check_url(f"http://{host}/hook")
    assert refused.value.field == "url"


@pytest.mark.parametrize(
    "host",
    ["93.184.216.34", "8.8.8.8", "[2606:2800:220:1::1]", "[::ffff:8.8.8.8]", "example.com", "a-b.c_d.example",
     "bücher.example"],
)  # fmt: skip
def test_public_addresses_and_names_are_let_through(host: str) -> None:
    guard().check_url(f"https://{host}:8443/hook?x=1")


@pytest.mark.parametrize(
    "url",
    [
        "", "hook", "/hook", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
        "http://", "http:///hook", "http://:80/", "http://user@example.com/", "http://user:pw@example.com/",
        "http://@example.com/", "http://example.com:0/", "http://example.com:65536/", "http://example.com:x/",
        "http://exa mple.com/", "http://example.com/a b", "http://example.com/\r\nX: 1", "http://example.com\t/",
        "http://example.com\\@evil/", "http://[example.com]/", "http://[127.0.0.1]/", "http://[::1", "http://::1/",
        "http://a..b/", "http://-a.example/", "http://" + "a" * 64 + ".example/", "http://" + "a." * 130 + "b/",
        "http://example.com/" + "x" * 3_000, "http://example.com/ü", "http://example.com%2f@evil/", "http://ex%61mple/",
        "http://\udcff.example/",
    ],
)  # fmt: skip
def test_what_is_not_a_url_to_deliver_to_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        guard().check_url(url)


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("http://Example.COM", Target("http", "example.com", 80, "/"), "example.com"),
        ("https://example.com:443/a?b=c#d", Target("https", "example.com", 443, "/a?b=c"), "example.com"),
        ("http://example.com:8080/%20", Target("http", "example.com", 8080, "/%20"), "example.com:8080"),
        ("http://[2606::1]:81/", Target("http", "2606::1", 81, "/"), "[2606::1]:81"),
        ("http://bücher.example/", Target("http", "xn--bcher-kva.example", 80, "/"), "xn--bcher-kva.example"),
    ],
)
def test_a_url_is_taken_apart(url: str, target: Target, authority: str) -> None:
    assert read_url(url) == target
    assert target.authority == authority


def test_a_url_with_a_hidden_path_is_not_taken_for_a_new_one() -> None:
    with pytest.raises(Refused, match="path hidden; write the whole URL"):
        read_url(redacted_url("https://shop.example/hooks/secret?key=1"))


NAME = Target("http", "shop.example", 80, "/")


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "fe80::1%eth0",
     "nonsense"],
)  # fmt: skip
async def test_a_name_that_points_inside_is_refused_when_it_is_dialled(address: str) -> None:
    with pytest.raises(Refused, match=r"shop\.example"):
        await guard(names=Names([address])).addresses(NAME)


async def test_only_the_public_ones_of_several_addresses_are_dialled() -> None:
    mixed = Names(["127.0.0.1", "93.184.216.34", "10.0.0.1", "2606:2800:220:1::1"])
    assert await guard(names=mixed).addresses(NAME) == ["93.184.216.34", "2606:2800:220:1::1"]


async def test_a_name_that_changes_its_answer_is_judged_by_the_one_that_is_dialled() -> None:
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    judge = guard(names=names)
    assert await judge.addresses(NAME) == ["93.184.216.34"]
    assert names.asked == 1
    with pytest.raises(Refused, match="not allowed"):
        await judge.addresses(NAME)


async def test_a_name_without_an_address_is_not_dialled() -> None:
    with pytest.raises(OSError, match="no address"):
        await guard(names=Names([])).addresses(NAME)


@pytest.mark.parametrize(
    ("allowed", "url", "fine"),
    [
        ("127.0.0.0/8", "http://127.0.0.1/", True),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/", True),
        ("127.0.0.0/8", "http://2130706433/", True),
        ("127.0.0.0/8", "http://localhost/", True),
        ("127.0.0.0/8", "http://10.0.0.1/", False),
        ("127.0.0.0/8", "http://[::1]/", False),
        ("::1/128", "http://[::1]/", True),
        ("10.0.0.0/8", "http://10.9.9.9/", True),
        ("10.0.0.0/8", "http://11.0.0.1/", True),
        ("10.0.0.0/8", "http://127.0.0.1/", False),
    ],
)
def test_what_the_operator_allows(allowed: str, url: str, fine: bool) -> None:
    if fine:
        guard(allowed).check_url(url)
    else:
        with pytest.raises(Invalid, match="COURIER_DELIVERY_ALLOW="):
            guard(allowed).check_url(url)


async def test_a_name_that_points_into_an_allowed_network_is_dialled() -> None:
    assert await guard("10.0.0.0/8", names=Names(["10.0.0.7"])).addresses(NAME) == ["10.0.0.7"]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.1.2.3", "fe80::1%eth0", "nonsense"])
async def test_only_the_operator_learns_where_a_name_points(address: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Refused) as refused:
        await guard(names=Names([address])).addresses(NAME)
    assert str(refused.value) == "shop.example resolves to an address that is not allowed"
    assert address in caplog.text


def test_a_tenant_may_have_networks_of_its_own() -> None:
    own = {"acme": ("10.0.0.0/8", "127.0.0.0/8")}
    judge = Guard(Names([]), [ipaddress.ip_network("192.168.0.0/16")], allow_of=lambda tenant: own.get(tenant, ()))
    for url in ("http://10.0.0.1/", "http://localhost/", "http://192.168.0.1/"):
        assert judge.check_url(url, tenant="acme").tenant == "acme"
    judge.check_url("http://192.168.0.1/", tenant="other")
    for url in ("http://10.0.0.1/", "http://localhost/"):
        with pytest.raises(Invalid, match="COURIER_DELIVERY_ALLOW="):
            judge.check_url(url, tenant="other")


@pytest.mark.parametrize("url", ["http://mail.example:25/", "https://db.example:5432/x", "http://10.0.0.1:22/"])
async def test_nothing_goes_to_a_blocked_port(url: str) -> None:
    judge = Guard(Names([]), [ipaddress.ip_network("10.0.0.0/8")], blocked_ports=(22, 25, 5432))
    with pytest.raises(Invalid, match=r"port \d+ is one that nothing is delivered to"):
        judge.check_url(url)
    with pytest.raises(Refused, match="port"):
        await judge.addresses(read_url(url))


class NoNames:
    """A name server that does not answer, or that knows nothing."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    async def resolve(self, host: str, port: int, *, tenant: str = "") -> list[str]:
        if self._silent:
            await asyncio.Event().wait()
        raise OSError("Name or service not known")


async def test_a_name_that_resolves_to_a_forbidden_address_is_refused_without_the_address() -> None:
    judge = guard(names=Names(["10.1.2.3", "127.0.0.1"]))
    with pytest.raises(Invalid, match=r"inside\.example resolves to an address that is not allowed") as refused:
        await judge.check_names({"notify_url": "https://inside.example/x"}, tenant="acme")
    assert refused.value.field == "notify_url"
    assert "10.1" not in str(refused.value)
    assert "127." not in str(refused.value)
    assert "delivery_allow" in str(refused.value)


async def test_a_name_with_one_good_address_is_accepted() -> None:
    await guard(names=Names(["10.1.2.3", "93.184.216.34"])).check_names({"url": "https://shop.example"}, tenant="a")
    await guard("10.0.0.0/8", names=Names(["10.1.2.3"])).check_names({"url": "https://shop.example"}, tenant="a")


@pytest.mark.parametrize("silent", [False, True])
async def test_a_name_that_is_not_known_yet_is_accepted(silent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("couriermq.delivery.guard.CHECK_SECONDS", 0.01)
    await Guard(NoNames(silent=silent)).check_names({"url": "https://soon.example"}, tenant="acme")
