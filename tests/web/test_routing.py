"""From a method and a path to an endpoint."""

import pytest

from couriermq.web.errors import MalformedRequest, MethodNotAllowed, NoRoute
from couriermq.web.routing import MOST_PATHS, PATH_CHARS, RouteTable

ROUTES = [
    ("GET", "/"),
    ("GET", "/queues"),
    ("POST", "/queues"),
    ("GET", "/queues/{queue}"),
    ("DELETE", "/queues/{queue}/messages/locks"),
    ("PATCH", "/queues/{queue}/messages/locks"),
    ("PUT", "/queues/{queue}/messages/{message}"),
    ("DELETE", "/queues/{queue}/messages/{message}"),
    ("DELETE", "/queues/{queue}/messages/{message}/locks/{lock}"),
]


@pytest.fixture
def table() -> RouteTable[str]:
    table: RouteTable[str] = RouteTable()
    for method, pattern in ROUTES:
        table.add(method, pattern, pattern)
    return table


@pytest.mark.parametrize(
    ("method", "path", "pattern", "params"),
    [
        ("GET", "/", "/", {}),
        ("GET", "/queues", "/queues", {}),
        ("GET", "/queues/orders", "/queues/{queue}", {"queue": "orders"}),
        (
            "DELETE",
            "/queues/orders/messages/m1/locks/l1",
            "/queues/{queue}/messages/{message}/locks/{lock}",
            {"queue": "orders", "message": "m1", "lock": "l1"},
        ),
    ],
)
def test_a_path_leads_to_its_pattern(
    table: RouteTable[str], method: str, path: str, pattern: str, params: dict[str, str]
) -> None:
    assert table.find(method, path) == (pattern, params)


def test_a_literal_wins_over_a_name(table: RouteTable[str]) -> None:
    endpoint, params = table.find("DELETE", "/queues/orders/messages/locks")
    assert (endpoint, params) == ("/queues/{queue}/messages/locks", {"queue": "orders"})


def test_a_name_is_tried_when_the_literal_does_not_serve_the_method(table: RouteTable[str]) -> None:
    endpoint, params = table.find("PUT", "/queues/orders/messages/locks")
    assert (endpoint, params["message"]) == ("/queues/{queue}/messages/{message}", "locks")


def test_a_name_is_tried_when_the_literal_leads_no_further(table: RouteTable[str]) -> None:
    _, params = table.find("DELETE", "/queues/orders/messages/locks/locks/l1")
    assert params == {"queue": "orders", "message": "locks", "lock": "l1"}


def test_an_encoded_slash_stays_inside_its_segment(table: RouteTable[str]) -> None:
    assert table.find("GET", "/queues/team%2Forders")[1] == {"queue": "team/orders"}


def test_segments_are_decoded_as_utf8(table: RouteTable[str]) -> None:
    assert table.find("GET", "/queues/gr%C3%BC%C3%9Fe")[1] == {"queue": "grüße"}


def test_a_plus_is_a_plus(table: RouteTable[str]) -> None:
    assert table.find("GET", "/queues/a+b")[1] == {"queue": "a+b"}


def test_a_path_that_is_not_utf8_is_malformed(table: RouteTable[str]) -> None:
    with pytest.raises(MalformedRequest):
        table.find("GET", "/queues/%FF")


def test_head_is_served_by_get(table: RouteTable[str]) -> None:
    assert table.find("HEAD", "/queues/orders") == ("/queues/{queue}", {"queue": "orders"})


@pytest.mark.parametrize("path", ["/nothing", "/queues/", "//queues", "/queues//messages/m1", "queues", "", "*"])
def test_what_is_not_there_has_no_route(table: RouteTable[str], path: str) -> None:
    with pytest.raises(NoRoute):
        table.find("GET", path)


def test_a_wrong_method_learns_the_right_ones(table: RouteTable[str]) -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        table.find("DELETE", "/queues")
    assert caught.value.allowed == ("GET", "HEAD", "POST")


def test_the_methods_of_literal_and_name_are_both_allowed(table: RouteTable[str]) -> None:
    with pytest.raises(MethodNotAllowed) as caught:
        table.find("POST", "/queues/orders/messages/locks")
    assert caught.value.allowed == ("DELETE", "PATCH", "PUT")


def test_a_pattern_is_served_once(table: RouteTable[str]) -> None:
    with pytest.raises(ValueError, match="served twice"):
        table.add("GET", "/queues/{other_name}", "again")


def test_a_path_of_very_many_segments_costs_no_more_than_the_table_is_deep(table: RouteTable[str]) -> None:
    with pytest.raises(NoRoute):
        table.find("GET", "/queues" * 100_000)


def test_a_route_that_is_added_later_wins_over_a_path_that_was_asked_for_before(table: RouteTable[str]) -> None:
    assert table.find("GET", "/queues/stats") == ("/queues/{queue}", {"queue": "stats"})
    table.add("GET", "/queues/stats", "figures")
    assert table.find("GET", "/queues/stats") == ("figures", {})


def test_a_table_remembers_few_paths_and_no_long_ones(table: RouteTable[str]) -> None:
    for number in range(3 * MOST_PATHS):
        assert table.find("GET", f"/queues/{number}") == ("/queues/{queue}", {"queue": str(number)})
        assert len(table._found) <= MOST_PATHS
    before = dict(table._found)
    long = "x" * PATH_CHARS
    assert table.find("GET", f"/queues/{long}") == ("/queues/{queue}", {"queue": long})
    assert table._found == before
