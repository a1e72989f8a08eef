"""A webhook's application in the test's process, with real Postgres behind it."""

import hashlib
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from workorders.webhook import app
from workorders.webhook.authentication import Secret
from workorders.webhook.callers import Callers
from workorders.webhook.handler import Database, RequestHandler
from workorders.webhook.hooks import Hooks
from workorders.webhook.stored_webhooks import StoredWebhook

SECRET = "kept-from-yaml"


class Webhooks:
    """Webhooks of the test's own, and a client that sends to them.

    Args:
        urls: databases by their Airflow connection.
        from_database: whether the webhooks are those of the database and not those that are defined here.
    """

    def __init__(self, urls: Mapping[str, str], *, from_database: bool = False) -> None:
        self.stored: dict[str, StoredWebhook] = {}
        self.urls = dict(urls)
        self.secrets = {"shop": Secret("ada", SECRET)}
        self._now = 0.0
        self.handler = RequestHandler(self.urls.__getitem__)
        served = self.handler.list_served if from_database else self._list_stored
        callers = Callers(self.secrets.__getitem__, self.clock)
        webhooks = app.Webhooks(Hooks(served, self.clock), self.handler, callers)
        self.client = TestClient(app.make_app(webhooks), raise_server_exceptions=False)

    def clock(self) -> float:
        """Let enough time pass between two looks that a change is noticed immediately."""
        self._now += 60
        return self._now

    def define(self, name: str, **fields: Any) -> None:
        """Define a webhook as its file would; it is public by default."""
        self.stored[name] = stored_webhook(name, **{"workflow": "admit", "authentication": "public", **fields})

    def _list_stored(self) -> list[StoredWebhook]:
        return list(self.stored.values())

    def post(self, path: str, body: bytes = b'{"a":1}', **headers: str) -> httpx2.Response:
        """Send a body; underscores in the names of headers are hyphens."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer: httpx2.Response = self.client.post(f"/{path}", content=body, headers=sent)
        return answer

    def take_no_writes(self, database_connection: str) -> None:
        """Let the next connection that is used be to a server that only reads, as a demoted one."""
        with self.handler.database(database_connection).connection() as connection:
            connection.execute("SET default_transaction_read_only = on")

    def close(self) -> None:
        """Close the connections to databases."""
        for database in self.handler._databases.values():
            close_idle(database)


def close_idle(database: Database) -> None:
    """Close the idle connections to a database, which a server keeps until its process ends."""
    while database._idle:
        database._idle.pop().close()


def stored_webhook(name: str, **fields: Any) -> StoredWebhook:
    """Return a webhook as a database has it, with the fields of its file."""
    return StoredWebhook(name, fields.get("path", name), {"name": name, **fields}, datetime.now(UTC))


def sign(body: bytes, secret: str = SECRET) -> str:
    """Return the signature of a body by a separate program: HMAC with SHA-256, in hexadecimal."""
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def sign_standard(key: str, event: Mapping[str, str], body: bytes) -> str:
    """Return the signature of a Standard Webhook by a separate program; `event` has its id and its time."""
    before = f"{event['Webhook_Id']}.{event['Webhook_Timestamp']}.".encode()
    return "v1," + b64encode(hmac.new(b64decode(key), before + body, hashlib.sha256).digest()).decode()


def now_text() -> str:
    """Return the Unix time in seconds."""
    return str(int(time.time()))
