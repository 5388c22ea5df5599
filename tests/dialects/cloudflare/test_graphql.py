"""GraphQL analytics: the vendor's documented queries run unchanged, on Courier's own statistics."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from couriermq.core.hex_ids import hex_of, id_of
from couriermq.core.model import Action
from couriermq.dialects.cloudflare.dialect import Cloudflare
from tests.support.cloudflare import Account, Queue, cloudflare_account

GRAPHQL = "/client/v4/graphql"
MINUTE = 60_000

BACKLOG = """
query QueueBacklog($accountTag: string!, $queueId: string!, $datetimeStart: Time!, $datetimeEnd: Time!) {
  viewer {
    accounts(filter: { accountTag: $accountTag }) {
      queueBacklogAdaptiveGroups(
        limit: 10000
        filter: { queueId: $queueId datetime_geq: $datetimeStart datetime_leq: $datetimeEnd }
      ) {
        avg { messages bytes }
      }
    }
  }
}
"""
CONCURRENCY = """
query QueueConcurrencyByHour($accountTag: string!, $queueId: string!, $datetimeStart: Time!, $datetimeEnd: Time!) {
  viewer {
    accounts(filter: { accountTag: $accountTag }) {
      queueConsumerMetricsAdaptiveGroups(
        limit: 10000
        filter: { queueId: $queueId datetime_geq: $datetimeStart datetime_leq: $datetimeEnd }
        orderBy: [datetimeHour_DESC]
      ) {
        avg { concurrency }
        dimensions { datetimeHour }
      }
    }
  }
}
"""
OPERATIONS = """
query QueueMessageOperationsByMinute($accountTag: string!, $queueId: string!, $datetimeStart: Date!, $datetimeEnd: Date!) {
  viewer {
    accounts(filter: { accountTag: $accountTag }) {
      queueMessageOperationsAdaptiveGroups(
        limit: 10000
        filter: { queueId: $queueId datetime_geq: $datetimeStart datetime_leq: $datetimeEnd }
        orderBy: [datetimeMinute_DESC]
      ) {
        count
        sum { bytes }
        dimensions { datetimeMinute }
      }
    }
  }
}
"""  # noqa: E501
DATASET = '{ viewer { accounts(filter: {accountTag: "default"}) { queueBacklogAdaptiveGroups'
BY_ACTION = """
query Actions($tag: String, $filter: AccountQueueMessageOperationsAdaptiveGroupsFilter_InputObject) {
  viewer {
    accounts(filter: { accountTag: $tag }) {
      operations: queueMessageOperationsAdaptiveGroups(limit: 100, filter: $filter, orderBy: [count_DESC]) {
        count
        avg { retryCount lagTime }
        sum { billableOperations }
        dimensions { ...action outcome consumerType }
      }
    }
  }
}
fragment action on AccountQueueMessageOperationsAdaptiveGroupsDimensions { actionType }
"""
BY_QUEUE = """
query Queues($tag: String, $filter: AccountQueueMessageOperationsAdaptiveGroupsFilter_InputObject) {
  viewer {
    accounts(filter: { accountTag: $tag }) {
      operations: queueMessageOperationsAdaptiveGroups(limit: 100, filter: $filter) { count dimensions { queueId } }
    }
  }
}
"""


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue(max_retries=1, dead_letter_queue="dead")


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


async def ask(account: Account, query: str, **variables: Any) -> Any:
    response = await account.app.request(
        "POST", GRAPHQL, json={"query": query, "variables": variables}, **account._options
    )
    assert response.status == 200, response
    return response.json()


async def groups(queue: Queue, query: str, **variables: Any) -> list[Any]:
    """The groups of the one dataset that a query asks for."""
    given = {"accountTag": "default", "queueId": queue.id, **variables}
    answer = await ask(queue.account, query, **given)
    assert answer["errors"] is None, answer
    (account,) = answer["data"]["viewer"]["accounts"]
    (found,) = account.values()
    assert isinstance(found, list)
    return found


WHOLE_DAY = {"datetimeStart": "2023-11-14T00:00:00Z", "datetimeEnd": "2023-11-14T23:59:59Z"}


async def test_the_documented_backlog_query(queue: Queue) -> None:
    await queue.push({"n": 1})
    await queue.push({"n": 2})
    window = {"datetimeStart": "2023-11-14T22:13:00Z", "datetimeEnd": "2023-11-14T22:13:59Z"}
    (group,) = await groups(queue, BACKLOG, **window)
    assert group == {"avg": {"messages": 2, "bytes": 2 * len('{"n":1}')}}


async def test_the_documented_operations_query_by_minute(queue: Queue) -> None:
    await queue.push({"n": 1})
    queue.account.clock.advance(ms=MINUTE)
    await queue.push({"n": 2})
    await queue.push({"n": 3})
    found = await groups(queue, OPERATIONS, datetimeStart="2023-11-14", datetimeEnd="2023-11-15")
    assert [(group["count"], group["sum"]["bytes"], group["dimensions"]["datetimeMinute"]) for group in found] == [
        (2, 14, "2023-11-14T22:14:00Z"),
        (1, 7, "2023-11-14T22:13:00Z"),
    ]


async def test_the_documented_concurrency_query_is_empty_without_a_worker(queue: Queue) -> None:
    assert await groups(queue, CONCURRENCY, **WHOLE_DAY) == []


async def test_operations_by_action_and_outcome(queue: Queue) -> None:
    await queue.push_batch({"body": {"n": 1}}, {"body": {"n": 2}})
    first, second = await queue.pull(batch_size=2)
    await queue.result(
        "POST",
        "/messages/ack",
        {"acks": [{"lease_id": first["lease_id"]}], "retries": [{"lease_id": second["lease_id"]}]},
    )
    (again,) = await queue.pull()
    await queue.result("POST", "/messages/ack", {"retries": [{"lease_id": again["lease_id"]}]})
    found = await groups(queue, BY_ACTION, tag="default", filter={"queueId": queue.id, "date": "2023-11-14"})
    told = {
        (group["dimensions"]["actionType"], group["dimensions"]["outcome"], group["dimensions"]["consumerType"]): group
        for group in found
    }
    assert {key: group["count"] for key, group in told.items()} == {
        ("ReadMessage", "", "http"): 3,
        ("WriteMessage", "", ""): 2,
        ("DeleteMessage", "success", "http"): 1,
        ("DeleteMessage", "dlq", "http"): 1,
    }
    assert told["WriteMessage", "", ""]["sum"]["billableOperations"] == 2
    assert found[0]["dimensions"]["actionType"] == "ReadMessage", "count_DESC"


async def test_conditions_can_be_joined(queue: Queue) -> None:
    await queue.push({"n": 1})
    await queue.pull()
    either = {"AND": [{"queueId_in": [queue.id]}, {"OR": [{"actionType": "ReadMessage"}, {"actionType_in": ["None"]}]}]}
    found = await groups(queue, BY_ACTION, tag="default", filter=either)
    assert [group["dimensions"]["actionType"] for group in found] == ["ReadMessage"]


FILTER = "AccountQueueBacklogAdaptiveGroupsFilter_InputObject"
BY_FILTER = f"query($f: {FILTER}!) {DATASET}(filter: $f) {{ count }} }} }} }}"
MANY_TIMES = f"query($f: {FILTER}!) {DATASET}(filter: {{OR: [{' '.join(['$f'] * 60)}]}}) {{ count }} }} }} }}"


@pytest.mark.parametrize(
    ("query", "given"),
    [
        (BY_FILTER, {"AND": [{}] * 100}),
        (BY_FILTER, {"AND": [{"AND": [{}] * 50}, {"OR": [{}] * 50}]}),
        (BY_FILTER, {"queueId_in": ["a"] * 100}),
        (MANY_TIMES, {"AND": [{}]}),
    ],
)
async def test_a_filter_has_few_conditions_and_empty_ones_count(queue: Queue, query: str, given: object) -> None:
    answer = await ask(queue.account, query, f=given)
    assert answer["errors"][0]["message"] == "a filter has at most 100 conditions"


async def test_a_filter_of_all_conditions_is_answered(queue: Queue) -> None:
    answer = await ask(queue.account, BY_FILTER, f={"AND": [{}] * 98})
    assert answer["errors"] is None


async def test_a_queue_can_be_asked_for_by_any_of_its_ids(queue: Queue) -> None:
    await queue.push({"n": 1})
    alias, digits, ours = "9f3e0d8c7b6a59483726151403f2e1d0", queue.id, id_of(queue.id)
    for shown in (digits, alias):
        for asked in (shown, digits, ours):
            for condition in ({"queueId": asked}, {"queueId_in": [asked]}, {"OR": [{"queueId": asked}]}):
                (group,) = await groups(queue, BY_QUEUE, tag="default", filter=condition)
                assert (group["count"], group["dimensions"]["queueId"]) == (1, shown)
        path = f"/courier/v1/tenants/default/queues/{digits}"
        await queue.account.app.request("PATCH", path, json={"aliases": {"cloudflare": alias}})


async def test_an_account_is_shown_by_its_hex_digits(account: Account) -> None:
    answer = await ask(account, '{ viewer { accounts(filter: {accountTag: "default"}) { accountTag } } }')
    assert answer["data"]["viewer"]["accounts"] == [{"accountTag": hex_of("default")}]


async def test_only_queues_whose_figures_the_caller_may_read_are_counted(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    elsewhere = await account.with_scopes(Action.STATS, queues=("other",))
    answer = await ask(elsewhere, BY_ACTION, tag="default")
    assert answer["data"]["viewer"]["accounts"][0]["operations"] == []
    refused = await account.app.request(
        "POST", GRAPHQL, json={"query": BY_ACTION}, **(await account.with_scopes(Action.SEND))._options
    )
    assert refused.status == 403


async def test_an_account_of_others_is_an_error_like_one_that_is_not_there(account: Account) -> None:
    await account.app.services.catalog.create_tenant("foreign", principal="test")
    caller = await account.with_scopes(Action.STATS)
    told = [await ask(caller, BY_ACTION, tag=tag) for tag in ("foreign", "nobody's")]
    for answer, tag in zip(told, ("foreign", "nobody's"), strict=True):
        (error,) = answer["errors"]
        assert answer["data"] == {"viewer": None}
        assert error["message"].replace(repr(tag), "…") == "this credential may not use account …"
        assert (error["extensions"]["code"], error["path"]) == ("authz", ["viewer", "accounts"])


async def test_introspection_describes_the_datasets(account: Account) -> None:
    answer = await ask(account, '{ __type(name: "account") { fields { name type { kind ofType { kind } } } } }')
    names = [field["name"] for field in answer["data"]["__type"]["fields"]]
    assert names == [
        "accountTag",
        "queueBacklogAdaptiveGroups",
        "queueConsumerMetricsAdaptiveGroups",
        "queueMessageOperationsAdaptiveGroups",
    ]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("{ viewer { accounts { nothing } } }", "Cannot query field 'nothing' on type 'account'."),
        ("{ viewer ", "Syntax Error: Expected Name, found <EOF>."),
        ("{ viewer { accounts { accountTag } } }", "name the account: accounts(filter: {accountTag: …})"),
        (
            '{ viewer { accounts(filter: {accountTag: "default"}) {'
            " queueBacklogAdaptiveGroups(limit: 10001) { count } } } }",
            "limit is from 1 to 10000",
        ),
        (
            '{ viewer { accounts(filter: {accountTag: "default"}) { queueBacklogAdaptiveGroups('
            'filter: {datetime_geq: "yesterday"}) { count } } } }',
            "'yesterday' is neither a date nor a time in RFC 3339",
        ),
        (
            '{ viewer { accounts(filter: {accountTag: "default"}) { queueBacklogAdaptiveGroups('
            "orderBy: [date_ASC]) { count } } } }",
            "orderBy has date, which the query does not select among its dimensions",
        ),
        ("{ " + "viewer { " * 500, "Syntax Error"),
        ("query { " + "a: viewer { __typename } " * 500 + "}", "Syntax Error: Document contains more than 2000 tokens"),
        (
            '{ __type(name: "x") { ' + "ofType { " * 20 + "name" + " }" * 20 + " } }",
            "the query is more than 15 levels deep",
        ),
        (
            'mutation { viewer { accounts(filter: {accountTag: "default"}) { accountTag } } }',
            "The mutation operation is not supported by the schema.",
        ),
    ],
)
async def test_a_bad_query_is_told_in_the_form_of_graphql(account: Account, query: str, sentence: str) -> None:
    answer = await ask(account, query)
    assert answer["errors"][0]["message"].startswith(sentence), answer
    assert set(answer) == {"data", "errors"}
    assert "timestamp" in answer["errors"][0]["extensions"]


async def test_fragments_that_double_each_other_are_refused_at_once(account: Account) -> None:
    kind = "AccountQueueBacklogAdaptiveGroupsDimensions"
    doubling = "".join(f" fragment F{n} on {kind} {{ ...F{n + 1} ...F{n + 1} }}" for n in range(60))
    query = f"{DATASET} {{ dimensions {{ ...F0 }} }} }} }} }}{doubling} fragment F60 on {kind} {{ queueId }}"
    answer = await ask(account, query)
    assert answer["errors"][0]["message"] == "the query selects more than 500 fields, those of fragments included"


async def test_aliases_do_not_multiply_the_answer(queue: Queue) -> None:
    aliases = " ".join(f"{'a' * 60}{n}: count" for n in range(90))
    window = '(filter: {datetime_geq: "2023-11-13T00:00:00Z"})'
    query = f"{DATASET}{window} {{ {aliases} dimensions {{ datetime }} }} }} }} }}"
    answer = await ask(queue.account, query)
    assert answer["errors"][0]["message"] == "the answer is too large; choose a smaller limit, or select fewer fields"
    long = await ask(queue.account, f"{DATASET} {{ {'a' * 65}: count }} }} }} }}")
    assert long["errors"][0]["message"] == "an alias has at most 64 characters"


async def test_one_fragment_may_be_used_in_several_places(queue: Queue) -> None:
    kind = "AccountQueueBacklogAdaptiveGroups"
    query = f"{DATASET}(limit: 1) {{ ...a ...a }} }} }} }} fragment a on {kind} {{ count dimensions {{ ...b ...b }} }}"
    answer = await ask(queue.account, f"{query} fragment b on {kind}Dimensions {{ queueId }}")
    assert answer["errors"] is None
    (group,) = answer["data"]["viewer"]["accounts"][0]["queueBacklogAdaptiveGroups"]
    assert set(group) == {"count", "dimensions"}


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("string", "filter: $x", "abc"),
        ("string", "filter: $x", {"bogus_x": 1}),
        ("string", "filter: {AND: $x}", "abc"),
        ("AccountQueueBacklogAdaptiveGroupsFilter_InputObject", "filter: {AND: [$x]}", None),
        ("string", "filter: {queueId_in: $x}", 5),
        ("string", "orderBy: $x", [5]),
        ("string", "orderBy: [$x]", "date"),
    ],
)
async def test_a_variable_of_another_shape_is_refused(account: Account, kind: str, place: str, value: object) -> None:
    query = f"query($x: {kind}) {DATASET}({place}) {{ count }} }} }} }}"
    answer = await ask(account, query, x=value)
    assert answer["errors"][0]["message"].startswith(f"Variable '$x' of type '{kind}' used in position expecting")
    assert answer["errors"][0]["extensions"]["code"] == "error"


async def test_a_query_that_looks_at_too_much_is_refused(account: Account) -> None:
    for index in range(60):
        await account.queue(f"queue-{index}", pull=False)
    answer = await ask(
        account,
        '{ viewer { accounts(filter: {accountTag: "default"}) {'
        ' queueBacklogAdaptiveGroups(filter: {datetime_geq: "2023-11-12T22:30:00Z"}) { count } } } }',
    )
    assert answer["errors"][0]["message"] == (
        "the query looks at too much; choose a shorter time, or name queues with queueId"
    )


@pytest.mark.parametrize("body", [b"", b"query { viewer }", b'{"variables": {}}', b"[]", b"\xff"])
async def test_a_body_without_a_query_is_refused(account: Account, body: bytes) -> None:
    response = await account.app.request("POST", GRAPHQL, body=body)
    assert (response.status, response.json()["success"]) == (400, False)
    assert response.json()["errors"][0]["code"] == 10026


async def test_the_answer_has_the_shape_that_is_described(account: Account) -> None:
    document = Cloudflare().openapi()
    schema = document["paths"][GRAPHQL]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    for query in ("{ __typename }", "{ nothing }"):
        jsonschema.validate(await ask(account, query), {**schema, "components": document["components"]})
