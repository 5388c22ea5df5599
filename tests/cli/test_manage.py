"""Queues, exchanges, tenants and credentials through the real command."""

import pytest

from tests.cli.conftest import Courier
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow


def test_a_queue_has_a_life(courier: Courier, tenant: str) -> None:
    assert "no queues yet" in courier.ok("queues", "list").err
    courier.ok("queues", "create", "dead")
    settings = ["--lease", "1m", "--retention", "2d", "--delay", "5s", "--retry-delay", "10s", "--max-attempts", "3"]
    more = ["--dead-letter-queue", "dead", "--max-body", "1KiB", "--late-ack", "accept", "--no-archive-bodies"]
    more += ["--max-leased", "20"]
    created = courier.ok("queues", "create", "orders", *settings, *more, "--json").json
    assert (
        created["settings"].items()
        >= {
            "delay_ms": 5_000,
            "lease_ms": 60_000,
            "retention_ms": 172_800_000,
            "max_attempts": 3,
            "max_leased": 20,
            "retry_delay_ms": 10_000,
            "dead_letter_queue": "dead",
            "paused": False,
            "max_body_bytes": 1024,
            "late_ack": "accept",
            "archive_bodies": False,
        }.items()
    )
    sheet = courier.ok("queues", "show", "orders").out
    for words in (
        "lease            1m",
        "retention        2d",
        "dead letters to  dead",
        "max body         1 KiB",
        "max leased       20",
    ):
        assert words in sheet
    changes = ["--max-attempts", "unlimited", "--no-dead-letter-queue", "--archive-bodies", "--name", "a/b"]
    changes += ["--max-leased", "unlimited"]
    changed = courier.ok("queues", "change", "orders", *changes, "--json").json
    assert changed["name"] == "a/b"
    assert changed["settings"] == created["settings"] | {
        "max_attempts": None,
        "max_leased": None,
        "dead_letter_queue": None,
        "archive_bodies": True,
    }
    assert courier.ok("queues", "delete", "a/b", "--yes").out == "deleted queue a/b\n"
    assert courier("queues", "show", "a/b").code == 3


def test_a_queue_keeps_the_id_that_a_vendor_gave_it(courier: Courier, tenant: str) -> None:
    alias = "023e105f4ecef8ad9ca31a8372d0c353"
    created = courier.ok("queues", "create", "orders", "--alias", f"cloudflare={alias}", "--json").json
    assert created["aliases"] == {"cloudflare": alias}
    assert alias in courier.ok("queues", "show", "orders").out
    assert courier.ok("queues", "change", "orders", "--no-aliases", "--json").json["aliases"] == {}
    changed = courier.ok("queues", "change", "orders", "--alias", "cloudflare=other", "--json").json
    assert changed["aliases"] == {"cloudflare": "other"}
    refused = courier("queues", "change", "orders", "--alias", "cloudflare=other", "--no-aliases")
    assert (refused.code, "contradict" in refused.err) == (2, True)


def test_the_list_of_queues_shows_what_is_in_them(courier: Courier, tenant: str) -> None:
    for name in ("b", "a", "c"):
        courier.ok("queues", "create", name)
    courier.ok("send", "a", "12345", "--repeat", 3)
    courier.ok("queues", "pause", "c")
    rows = [line.split() for line in courier.ok("queues", "list").lines]
    assert rows[0][:6] == ["NAME", "KIND", "READY", "DELAYED", "LEASED", "SIZE"]
    assert rows[1][:7] == ["a", "standard", "3", "0", "0", "15", "B"]
    assert [row[0] for row in rows[1:]] == ["a", "b", "c"]
    assert rows[3][1] == "paused"
    assert [queue["name"] for queue in courier.ok("queues", "list", "--prefix", "b", "--json").json] == ["b"]
    assert [queue["name"] for queue in courier.ok("queues", "list", "--limit", 2, "--json").json] == ["a", "b"]


def test_a_paused_queue_gives_nothing_until_it_is_resumed(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "q")
    courier.ok("send", "q", "x")
    courier.ok("queues", "pause", "q")
    refused = courier("receive", "q")
    assert (refused.code, refused.err) == (1, "courier: queue 'q' is paused; resume it to receive\n")
    courier.ok("queues", "resume", "q")
    assert courier.ok("receive", "q", "--raw").out == "x\n"


def test_messages_are_moved_and_purged(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "a")
    courier.ok("queues", "create", "b")
    courier.ok("send", "a", "x", "--repeat", 5)
    first = courier.ok("browse", "a", "--json").json[0]["seq"]
    assert courier.ok("queues", "move", "a", "b", "--seq", first).out == "moved 1 message\n"
    assert courier.ok("queues", "move", "a", "b", "--json").json == {"count": 4}
    assert courier.ok("queues", "purge", "b", "--seq", first, "--seq", 10**9).out == "removed 1 message\n"
    assert courier.ok("queues", "purge", "b", "--yes").out == "removed 4 messages\n"


def test_counters_are_given_for_one_queue_and_for_all(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "a")
    courier.ok("send", "a", "x", "--delay", "1h")
    one = courier.ok("queues", "counters", "a", "--json").json
    assert (one["delayed_count"], one["total_count"]) == (1, 1)
    assert courier.ok("queues", "counters", "--json").json["a"]["delayed_count"] == 1
    assert courier.ok("queues", "counters").lines[1].split()[:4] == ["a", "0", "1", "0"]


def test_an_exchange_copies_by_rules(courier: Courier, tenant: str) -> None:
    courier.ok("exchanges", "create", "news")
    for queue in ("all", "eu"):
        courier.ok("queues", "create", queue)
    courier.ok("exchanges", "bind", "news", "all")
    bound = courier.ok("exchanges", "bind", "news", "eu", "--rule", "region any_of eu,uk", "-r", "priority >= 5").out
    assert bound == "bound news to eu: region any_of eu,uk and priority ge 5\n"
    assert courier.ok("exchanges", "publish", "news", "x", "-a", "region=eu", "-a", "priority=7").out.endswith(
        "to 2 queues\n"
    )
    assert courier.ok("exchanges", "publish", "news", "x", "-a", "region=eu", "--json").json["queue_count"] == 1
    assert courier.ok("exchanges", "publish", "news", "--lines", stdin=b"a\nb\n").out == "sent 2 messages\n"
    assert courier.ok("send", "news", "x", "-a", "region=eu", "-a", "priority=7").out.endswith("to 2 queues\n")
    assert courier.ok("send", "news", "--lines", stdin=b"a\nb\n").out == "sent 2 messages\n"
    assert courier("send", "nws", "x").err == courier("receive", "nws").err
    assert [line.split()[0] for line in courier.ok("exchanges", "bindings", "news").lines] == ["QUEUE", "all", "eu"]
    assert "to eu    region any_of eu,uk and priority ge 5" in courier.ok("exchanges", "show", "news").out
    assert [exchange["name"] for exchange in courier.ok("exchanges", "list", "--json").json] == ["news"]
    courier.ok("exchanges", "unbind", "news", "all")
    assert courier("exchanges", "unbind", "news", "all").code == 3
    courier.ok("exchanges", "delete", "news", "--yes")
    assert courier("exchanges", "show", "news").code == 3


def test_a_tenant_has_a_life(courier: Courier) -> None:
    courier.ok("tenants", "create", "acme", "--alias", "cloudflare=023e1", "--alias", "anypoint=org-1")
    assert courier.ok("tenants", "show", "acme", "--json").json["aliases"] == {
        "cloudflare": "023e1",
        "anypoint": "org-1",
    }
    courier.ok("tenants", "change", "acme", "--alias", "cloudflare=9")
    assert "acme" in [line.split()[0] for line in courier.ok("tenants", "list").lines]
    assert "cloudflare=9" in courier.ok("tenants", "show", "acme").out
    assert courier.ok("tenants", "change", "acme", "--no-aliases", "--json").json["aliases"] == {}
    courier.ok("tenants", "change", "acme", "--quota", "max_queues=3", "--quota", "requests_per_second=2.5")
    assert "max_queues=3 requests_per_second=2.5" in courier.ok("tenants", "show", "acme").out
    assert ["max_queues", "0", "3"] in [line.split() for line in courier.ok("tenants", "usage", "acme").lines]
    courier.ok("tenants", "change", "acme", "--no-quotas")
    assert "none of its own" in courier.ok("tenants", "show", "acme").out
    courier.ok("queues", "create", "q", "--tenant", "acme")
    assert courier("tenants", "delete", "acme", "--yes").code == 1
    courier.ok("queues", "delete", "q", "--yes", "--tenant", "acme")
    courier.ok("tenants", "delete", "acme", "--yes")
    assert courier("tenants", "show", "acme").code == 3


def test_a_credential_opens_what_it_may_and_nothing_else(courier: Courier, tenant: str) -> None:
    courier.ok("queues", "create", "orders")
    made = courier.ok("credentials", "create", "shop", "--may", "send:orders", "--expires-in", "1h", "--json").json
    shop = {"COURIER_TOKEN": made["secret"]}
    courier.ok("send", "orders", "x", **shop)
    refused = courier("receive", "orders", **shop)
    assert (refused.code, "may not receive from" in refused.err) == (4, True)
    assert courier("queues", "create", "other", **shop).code == 4
    assert courier("queues", "list", "--tenant", "default", **shop).code == 4
    listed = courier.ok("credentials", "list").lines[1].split()
    assert (listed[:3], listed[-1]) == ([made["id"], "shop", "enabled"], "send:orders")
    assert made["secret"] not in courier.ok("credentials", "show", made["id"], "--json").out


def test_a_credential_is_disabled_enabled_rotated_and_deleted(courier: Courier, tenant: str) -> None:
    made = courier.ok("credentials", "create", "all", "--requests-per-second", "1000", "--json").json
    courier.ok("queues", "list", COURIER_TOKEN=made["secret"])
    courier.ok("credentials", "disable", made["id"])
    assert courier("queues", "list", COURIER_TOKEN=made["secret"]).code == 4
    courier.ok("credentials", "enable", made["id"])
    rotated = courier.ok("credentials", "rotate", made["id"], "--yes")
    secret = rotated.lines[1].removeprefix("secret: ")
    assert "not shown again" in rotated.err
    assert courier("queues", "list", COURIER_TOKEN=made["secret"]).code == 4
    courier.ok("queues", "list", COURIER_TOKEN=secret)
    assert "at most 1000 per second" in courier.ok("credentials", "show", made["id"]).out
    again = courier.ok("credentials", "rotate", "all", "--overlap", "24h")
    assert "the old secret stays good until" in again.err
    for good in (secret, again.lines[1].removeprefix("secret: ")):
        courier.ok("queues", "list", COURIER_TOKEN=good)
    assert "old secret" in courier.ok("credentials", "show", made["id"]).out
    courier.ok("credentials", "delete", made["id"], "--yes")
    assert courier("credentials", "show", made["id"]).code == 3


def test_no_token_and_a_wrong_token_are_code_4(courier: Courier) -> None:
    assert courier("queues", "list", COURIER_TOKEN="").code == 4
    assert courier("queues", "list", COURIER_TOKEN="wrong").code == 4


def test_a_flag_wins_over_the_environment(courier: Courier, server: ServerProcess) -> None:
    courier.ok(
        "queues", "list", "--token", server.token, "--url", server.url, COURIER_TOKEN="x", COURIER_URL="http://y"
    )


def test_what_a_job_holds_is_seen_and_freed(courier: Courier, tenant: str, server: ServerProcess) -> None:
    courier.ok("queues", "create", "a")
    courier.ok("queues", "create", "b")
    courier.ok("send", "a", "x", "--repeat", 3)
    assert courier.ok("claims", "list").err == "no job holds anything\n"
    job = f"{server.url}/courier/v1/tenants/{tenant}/queues/a/jobs/spark"
    assert server.session.post(f"{job}/open", timeout=30).status_code == 200
    assert server.session.put(f"{job}/claims/1", json={"epoch": 1}, timeout=30).status_code == 201
    assert courier.ok("claims", "list").lines[1].split()[:7] == ["a", "spark", "1", "1", "3", "3", "B"]
    (claim,) = courier.ok("claims", "list", "a", "--json").json
    assert (claim["job"], claim["number"], claim["count"], claim["age_ms"] >= 0) == ("spark", 1, 3, True)
    assert courier.ok("claims", "free", "a", "spark", "--yes").out == "freed 3 messages\n"
    assert courier.ok("claims", "list", "--json").json == []
    assert courier.ok("receive", "a", "--raw").out == "x\n"


@pytest.mark.parametrize(
    "command",
    [
        ("queues", "delete", "orders"),
        ("queues", "purge", "orders"),
        ("exchanges", "delete", "news"),
        ("tenants", "delete", "default"),
        ("credentials", "delete", "shop"),
        ("credentials", "rotate", "shop"),
        ("listeners", "delete", "orders", "hook"),
        ("claims", "free", "orders", "billing"),
        ("shards", "remove", "second"),
        ("erase", "--message", "m1"),
        ("replay", "--from", "messages", "--where", "true", "--to", "orders"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_undone_needs_yes_where_there_is_no_terminal(courier: Courier, command: tuple[str, ...]) -> None:
    run = courier(*command)
    assert run.code == 2
    assert run.err.endswith("There is no terminal to ask on: add --yes to do it\n")
