"""A webhook's application in the test's process, with real Postgres behind it."""

import hashlib
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
from fastapi.testclient import TestClient

from support.definition_files import write_definitions
from workorders.webhook.app import make_app
from workorders.webhook.authentication import Secret
from workorders.webhook.handler import RequestHandler
from workorders.webhook.hooks import Hooks, TriggerFolder
from workorders.webhook.stored_webhooks import StoredWebhooks

SECRET = "kept-from-yaml"


class Webhooks:
    """Trigger files in a folder of the test's own, and a client that sends to them.

    Args:
        folder: the files are written here.
        urls: databases by their Airflow connection.
        served_from: the Airflow connection of the database that has the webhooks; None if the folder has them.
    """

    def __init__(self, folder: Path, urls: Mapping[str, str], *, served_from: str | None = None) -> None:
        self.folder = folder
        self.urls = dict(urls)
        self.secrets = {"shop": Secret("ada", SECRET)}
        self._now = 0.0
        self.handler = RequestHandler(self.urls.__getitem__)
        stored = None if served_from is None else StoredWebhooks(self.handler.database(served_from))
        hooks = Hooks(stored or TriggerFolder(folder), self.clock)
        app = make_app(hooks, self.handler, self.secrets.__getitem__, self.clock)
        self.client = TestClient(app, raise_server_exceptions=False)

    def clock(self) -> float:
        """Let enough time pass between two looks that a changed file is noticed immediately."""
        self._now += 60
        return self._now

    def define(self, name: str, **fields: Any) -> None:
        """Write a trigger file; it is public by default."""
        content = {"name": name, "type": "webhook", "workflow": "admit", "authentication": "public", **fields}
        write_definitions(self.folder, content)

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
        self.handler.close()


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
