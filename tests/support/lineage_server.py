"""An OpenLineage server that keeps what it is sent."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from local_stack.ports import LOOPBACK


class LineageServer:
    """Receives events by HTTP, from entering the context until leaving it.

    Args:
        api_key: the key without which events are refused.
    """

    def __init__(self, api_key: str) -> None:
        self.api_key = api_key
        #: Events so far, in the order in which they came.
        self.events: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="lineage", daemon=True)

    @property
    def transport(self) -> dict[str, Any]:
        """What `[openlineage] transport` is set to."""
        auth = {"type": "api_key", "apiKey": self.api_key}
        return {"type": "http", "url": f"http://{LOOPBACK}:{self._server.server_port}", "auth": auth}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def completed(self, job: str) -> dict[str, Any] | None:
        """Return the event of a job's first success; none until it came."""
        return next(
            (event for event in self.events if event["job"]["name"] == job and event["eventType"] == "COMPLETE"), None
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                is_known = self.headers["Authorization"] == f"Bearer {server.api_key}"
                if is_known:
                    server.events.append(json.loads(body))
                self.send_response(201 if is_known else 401)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler
