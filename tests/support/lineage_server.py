"""An OpenLineage server that keeps what it is sent."""

import json
from typing import Any

from local_stack.loopback_server import LoopbackServer, Request


class LineageServer(LoopbackServer):
    """Receives events by HTTP, from entering the context until leaving it.

    Args:
        api_key: the key without which events are refused.
    """

    def __init__(self, api_key: str) -> None:
        super().__init__(self._take)
        self.api_key = api_key
        #: Events so far, in the order in which they came.
        self.events: list[dict[str, Any]] = []

    @property
    def transport(self) -> dict[str, Any]:
        """What `[openlineage] transport` is set to."""
        return {"type": "http", "url": self.url, "auth": {"type": "api_key", "apiKey": self.api_key}}

    def completed(self, job: str) -> dict[str, Any] | None:
        """Return the event of a job's first success; none until it came."""
        return next(
            (event for event in self.events if event["job"]["name"] == job and event["eventType"] == "COMPLETE"), None
        )

    def _take(self, request: Request) -> tuple[int, bytes]:
        if request.headers.get("authorization") != f"Bearer {self.api_key}":
            return 401, b""
        self.events.append(json.loads(request.body))
        return 201, b""
