"""Programs that cannot be installed here send what they would send: the requests are those of their sources.

`@bbc/cloudflare-queue-consumer`, alchemy's resources, cloudflare-go v0 and Terraform's provider v4 on top of it.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

HEX_ID = re.compile(r"[a-f0-9]{32}")
"""What programs check ids with before they call."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("third-parties")) as server:
        yield server


class Api:
    """A caller of one account, which it has looked up."""

    def __init__(self, server: ServerProcess) -> None:
        self._url = f"{server.url}/client/v4"
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {server.token}"
        (account,) = self._session.get(f"{self._url}/accounts", timeout=30).json()["result"]
        assert HEX_ID.fullmatch(account["id"])
        self.account = f"/accounts/{account['id']}"

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        return self._session.request(method, self._url + self.account + path, json=body, timeout=30)

    def result(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.call(method, path, body)
        assert answer.status_code == 200, answer.text
        return answer.json()["result"]


@pytest.fixture
def api(server: ServerProcess) -> Api:
    return Api(server)


def test_the_bbcs_consumer_sends_messages_back_as_it_got_them(api: Api) -> None:
    queue_id = api.result("POST", "/queues", {"queue_name": "bbc"})["queue_id"]
    assert HEX_ID.fullmatch(queue_id)
    queue = f"/queues/{queue_id}"
    api.result("POST", f"{queue}/consumers", {"type": "http_pull"})
    for n in range(20):
        api.result("POST", f"{queue}/messages", {"body": f"{n:100000}", "content_type": "text"})
    pulled = api.result("POST", f"{queue}/messages/pull", {"batch_size": 20, "visibility_timeout_ms": 30_000})
    messages = pulled["messages"]
    assert len(messages) == 20
    order = {"acks": messages[:15], "retries": [{**message, "delay_seconds": 0} for message in messages[15:]]}
    settled = api.call("POST", f"{queue}/messages/ack", order).json()
    assert (settled["success"], settled["result"]) == (True, {"ackCount": 15, "retryCount": 5})


def test_alchemy_adopts_a_queue_and_a_consumer_that_are_there(api: Api) -> None:
    made = api.result("POST", "/queues", {"queue_name": "adopted"})
    queue = f"/queues/{made['queue_id']}"
    consumer = {"type": "worker", "script_name": "mailer", "settings": {"batch_size": 5}}
    api.result("POST", f"{queue}/consumers", consumer)

    assert api.call("POST", "/queues", {"queue_name": "adopted"}).status_code == 409
    (found,) = [one for one in api.result("GET", "/queues") if one["queue_name"] == "adopted"]
    api.result("PUT", f"/queues/{found['queue_id']}", {"queue_name": "adopted", "settings": {"delivery_delay": 3}})

    taken = api.call("POST", f"{queue}/consumers", consumer)
    assert taken.status_code == 400
    assert "already has a consumer" in taken.json()["errors"][0]["message"]
    (consumer_id,) = [
        one["consumer_id"] for one in api.result("GET", f"{queue}/consumers") if one["script_name"] == "mailer"
    ]
    changed = api.result("PUT", f"{queue}/consumers/{consumer_id}", consumer | {"settings": {"batch_size": 9}})
    assert (changed["consumer_id"], changed["settings"]["batch_size"]) == (consumer_id, 9)
    assert changed["queue_id"] == made["queue_id"]


def test_cloudflare_go_and_terraform_manage_queues_at_the_old_paths(api: Api) -> None:
    queues = "/workers/queues"
    made = api.result("POST", queues, {"queue_name": "terraform"})
    assert HEX_ID.fullmatch(made["queue_id"])
    listed = api.call("GET", f"{queues}?page=1&per_page=50").json()
    assert "terraform" in [one["queue_name"] for one in listed["result"]]
    assert {"page", "per_page", "count", "total_count", "total_pages"} <= listed["result_info"].keys()
    renamed = api.result("PUT", f"{queues}/terraform", {"queue_name": "terraform-2"})
    assert renamed["queue_id"] == made["queue_id"]
    order = {"service": "mailer", "environment": "production", "settings": {"batch_size": 10, "max_wait_time_ms": 5000}}
    consumer = api.result("POST", f"{queues}/terraform-2/consumers", order)
    assert (consumer["service"], consumer["environment"]) == ("mailer", "production")
    assert api.result("GET", f"{queues}/terraform-2/consumers?page=1&per_page=50") == [consumer]
    api.result("PUT", f"{queues}/terraform-2/consumers/mailer", order | {"settings": {"batch_size": 20}})
    assert api.result("DELETE", f"{queues}/terraform-2/consumers/mailer") is None
    assert api.result("DELETE", f"{queues}/terraform-2") is None
    assert api.call("GET", f"{queues}/terraform-2").status_code == 404
