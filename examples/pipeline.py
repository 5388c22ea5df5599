"""From messages to tables and back: a walk through the pipeline, cell by cell.

    COURIER_URL=http://127.0.0.1:8080 COURIER_TOKEN=<root token> python examples/pipeline.py

Needs `couriermq[spark]` and Java 17 or newer. Editors that know `# %%` run it cell by cell, like a notebook. The
lake is made in a folder of its own, which is removed at the end.
"""

# %% Where everything is
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import requests

URL = os.environ.get("COURIER_URL", "http://127.0.0.1:8080")
QUEUES = f"{URL}/courier/v1/tenants/{os.environ.get('COURIER_TENANT', 'default')}/queues"
ORDERS, FAILED, AGAIN = "walk-orders", "walk-failed", "walk-again"

scratch = tempfile.TemporaryDirectory()
lake = Path(scratch.name) / "lake"

session = requests.Session()
session.headers["Authorization"] = f"Bearer {os.environ['COURIER_TOKEN']}"


def call(method: str, path: str, document: Any = None) -> Any:
    answer = session.request(method, f"{QUEUES}{path}", json=document, timeout=30)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def courier(*arguments: str) -> str:
    """The command line, with the lake of this walk."""
    command = [sys.executable, "-m", "couriermq.cli", *arguments]
    done = subprocess.run(
        command, env=os.environ | {"COURIER_LAKE": str(lake)}, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


# %% Something happens: ten orders, of which seven are done and three fail twice
call("POST", "", {"name": FAILED})
call("POST", "", {"name": ORDERS, "settings": {"dead_letter_queue": FAILED, "max_attempts": 2}})
call("POST", "", {"name": AGAIN})
orders = [
    {"json": {"order": n, "item": "book" if n % 2 else "lamp"}, "attributes": {"region": "eu"}} for n in range(10)
]
call("POST", f"/{ORDERS}/messages", {"messages": orders})

for _ in range(2):
    for lease in call("POST", f"/{ORDERS}/receive", {"limit": 10})["leases"]:
        good = json.loads(lease["message"]["body"])["order"] < 7
        call("POST", f"/{ORDERS}/{'ack' if good else 'release'}", {"receipt": lease["receipt"]})

# %% The journal becomes tables
courier("pipeline", "run", "--once", "--json")
print("tables:", ", ".join(sorted(path.name for path in lake.iterdir() if path.name[0] not in "_.")))

# %% pandas reads them as they are
minutes = pd.read_parquet(lake / "queue_minutes")
mine = minutes[minutes["queue"].isin([ORDERS, FAILED])]
print(mine.groupby("queue")[["sent", "received", "acked", "dead_lettered", "arrived"]].sum().to_string())

# %% So does everything else that reads Parquet
messages = pd.read_parquet(lake / "messages", filters=[("queue", "==", ORDERS)])
print(messages.groupby("outcome").size().to_dict())

# %% What failed comes back, into another queue
courier(
    "replay",
    "--from",
    "messages",
    "--where",
    f"queue = '{ORDERS}' AND outcome = 'dead_lettered'",
    "--to",
    AGAIN,
    "--yes",
)
again = call("GET", f"/{AGAIN}/messages")["messages"]
print("replayed:", sorted(json.loads(message["body"])["order"] for message in again))

# %% The past of a queue, through the API: from the journal here, from the tables where the server has the lake
past = call("GET", f"/{ORDERS}/stats")
print("sent:", sum(point["sent"] for point in past["points"]))

# %% And a page to look at
page = Path(scratch.name) / "report.html"
courier("report", "--out", str(page))
print("report:", page.stat().st_size > 10_000)

# %% Leave no trace
for queue in (ORDERS, AGAIN, FAILED):
    call("DELETE", f"/{queue}")
scratch.cleanup()
