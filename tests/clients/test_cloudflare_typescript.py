"""The official TypeScript SDK does the round trip of a message against a real server."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.server import start_server

NODE = Path(__file__).parent / "node"


@pytest.mark.slow
def test_the_round_trip_of_a_message(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        program = subprocess.run(
            ["node", "round_trip.mjs"],
            cwd=NODE,
            env=os.environ | {"COURIER_URL": server.url, "COURIER_TOKEN": server.token},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert program.returncode == 0, f"{program.stderr}\nIs it installed? `make install-all` does."
    seen = json.loads(program.stdout)
    assert seen["pushed"]["metadata"]["metrics"]["backlog_count"] == 1
    assert seen["bulk"]["metadata"]["metrics"]["backlog_count"] == 3
    assert json.loads(seen["peeked"]["messages"][0]["body"]) == {"order": 1}
    assert [message["body"] for message in seen["pulled"]["messages"]] == ['{"order":1}', "grüße", '{"order":3}']
    assert [message["attempts"] for message in seen["pulled"]["messages"]] == [1, 1, 1]
    assert seen["settled"] == {"ackCount": 2, "retryCount": 1}
    assert [(message["body"], message["attempts"]) for message in seen["again"]["messages"]] == [("grüße", 2)]
    assert seen["metrics"]["backlog_count"] == 0
    assert seen["names"] == ["typescript", "typescript-dead"]
    assert seen["halves"] is True
    assert (seen["verified"], seen["accounts"]) == ("active", ["default"])
    assert seen["failures"] == {
        "missing": {"name": "NotFoundError", "status": 404, "codes": [11000]},
        "taken": {"name": "ConflictError", "status": 409, "codes": [11009]},
        "text": {"name": "BadRequestError", "status": 400, "codes": [10207]},
        "unauthorized": {"name": "AuthenticationError", "status": 401, "codes": [10000]},
    }
