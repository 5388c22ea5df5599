"""Orders through Anypoint MQ's own REST API: a producer, a consumer that extends its lock, a drain of dead letters.

    COURIER_URL=http://127.0.0.1:8080 COURIER_TOKEN=<root token> python examples/anypoint_orders.py

Nothing here knows Courier: change the base URL and the three ids, and the same calls reach Anypoint MQ.
"""

import os
from typing import Any

import requests

URL = os.environ.get("COURIER_URL", "http://127.0.0.1:8080")
TOKEN = os.environ["COURIER_TOKEN"]
ORGANIZATION = ENVIRONMENT = os.environ.get("COURIER_TENANT", "default")
REGION = "us-east-1"

PLACE = f"organizations/{ORGANIZATION}/environments/{ENVIRONMENT}"
BROKER = f"{URL}/api/v1/{PLACE}/destinations"
ADMIN = f"{URL}/mq/admin/api/v1/{PLACE}"

ORDERS, FAILED = "example-orders", "example-orders-failed"


# -- once, by an administrator --------------------------------------------------------------------------------


def administrator() -> requests.Session:
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {TOKEN}"
    return session


def set_up(admin: requests.Session) -> dict[str, str]:
    """Two queues, one for what fails twice in the other, and a client app for the programs below."""
    queues = f"{ADMIN}/regions/{REGION}/destinations/queues"
    checked(admin.put(f"{queues}/{FAILED}", json={}))
    checked(admin.put(f"{queues}/{ORDERS}", json={"deadLetterQueueId": FAILED, "maxDeliveries": 2}))
    client: dict[str, str] = checked(admin.put(f"{ADMIN}/clients", json={"name": "order desk"}))
    return client


def tear_down(admin: requests.Session, client: dict[str, str]) -> None:
    admin.delete(f"{ADMIN}/clients/{client['clientId']}")
    for queue in (ORDERS, FAILED):
        admin.delete(f"{ADMIN}/regions/{REGION}/destinations/queues/{queue}")


# -- a program ------------------------------------------------------------------------------------------------


def authorize(client: dict[str, str]) -> requests.Session:
    """A session with the client app's token, which every use keeps alive for another hour."""
    form = {
        "client_id": client["clientId"],
        "client_secret": client["clientSecret"],
        "grant_type": "client_credentials",
    }
    session = requests.Session()
    token = checked(session.post(f"{URL}/api/v1/authorize", data=form))
    session.headers["Authorization"] = f"Bearer {token['access_token']}"
    return session


def produce(session: requests.Session) -> None:
    batch = [
        {
            "headers": {"messageId": f"order-{number}"},
            "properties": {"contentType": "application/json", "number": number},
            "body": f'{{"number": {number}}}',
        }
        for number in range(1, 5)
    ]
    for outcome in checked(session.put(f"{BROKER}/{ORDERS}/messages", json=batch)):
        print(f"published {outcome['messageId']}: {outcome['status']}")


def consume(session: requests.Session, queue: str) -> list[Any]:
    """Up to ten messages, each under a lock of ten seconds; 204 means that there are none."""
    query = {"batchSize": 10, "pollingTime": 1_000, "lockTtl": 10_000}
    response = session.get(f"{BROKER}/{queue}/messages", params=query)
    return [] if response.status_code == 204 else list(checked(response))


def work(session: requests.Session) -> None:
    """Order 2 takes long, so its lock is extended; order 3 cannot be done and is given back until it is dead."""
    while messages := consume(session, ORDERS):
        for message in messages:
            headers, number = message["headers"], message["properties"]["number"]
            path = f"{BROKER}/{ORDERS}/messages/{headers['messageId']}"
            lock = f"{path}/locks/{headers['lockId']}"
            if number == 2:
                checked(session.patch(lock, json={"ttl": 60}))  # seconds, unlike every other duration
                print(f"{headers['messageId']} takes a while: locked for another minute")
            if number == 3:
                checked(session.delete(lock))
                print(f"{headers['messageId']} failed in delivery {headers['deliveryCount']}")
            else:
                checked(session.delete(path, json={"lockId": headers["lockId"]}))
                print(f"{headers['messageId']} done")


def drain(session: requests.Session) -> None:
    """Dead letters go back to where they failed; each is acknowledged only once its copy is safe."""
    for message in consume(session, FAILED):
        headers = message["headers"]
        copy = {"properties": message["properties"], "body": message["body"]}
        checked(session.put(f"{BROKER}/{ORDERS}/messages/{headers['messageId']}", json=copy))
        path = f"{BROKER}/{FAILED}/messages/{headers['messageId']}"
        checked(session.delete(path, json={"lockId": headers["lockId"]}))
        print(f"{headers['messageId']} drained from {FAILED}")


def checked(response: requests.Response) -> Any:
    response.raise_for_status()
    return response.json()


def main() -> None:
    admin = administrator()
    client = set_up(admin)
    try:
        session = authorize(client)
        produce(session)
        work(session)
        drain(session)
    finally:
        tear_down(admin, client)


if __name__ == "__main__":
    main()
