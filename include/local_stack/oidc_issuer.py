"""A small OIDC issuer: gives tokens for client credentials, over TLS with a certificate authority of its own."""

import json
import ssl
import tempfile
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from local_stack.certificates import Authority
from local_stack.ports import LOOPBACK

AUDIENCE = "kafka"
ISSUER = "https://issuer.test"
_SECONDS = 300


class OidcIssuer:
    """Gives tokens whose subject is the client's id."""

    def __init__(self, clients: dict[str, str]) -> None:
        """Describe it by the secrets of its clients; `start` starts it."""
        self._clients = clients
        self.authority = Authority.create("issuer's CA")
        self._signer = self.authority.server()
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._server.daemon_threads = True
        self._server.socket = self._context().wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, name="issuer", daemon=True)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"https://{LOOPBACK}:{self._server.server_port}"

    def start(self) -> None:
        """Answer, in a thread of this process."""
        self._thread.start()

    def stop(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def token(self, subject: str) -> str:
        """Return a token that is valid now."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + _SECONDS, "scope": "kafka"}
        text = ".".join(_base64(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "1"}, claims))
        signature = self._signer.private_key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signature)}"

    def _keys(self) -> dict[str, Any]:
        numbers = self._signer.private_key.public_key().public_numbers()
        public = {name: _number(value) for name, value in (("n", numbers.n), ("e", numbers.e))}
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", **public}]}

    def _answer(self, authorization: str) -> dict[str, Any] | None:
        client, _, secret = b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        if not secret or self._clients.get(client) != secret:
            return None
        return {"access_token": self.token(client), "token_type": "Bearer", "expires_in": _SECONDS}

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "server.pem")
            file.write_text(self._signer.chain + self._signer.key())
            context.load_cert_chain(file)
        return context

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Give the keys by which a token is verified."""
                self._send(issuer._keys())

            def do_POST(self) -> None:
                """Give a token to a client with its secret."""
                self.rfile.read(int(self.headers["Content-Length"]))
                self._send(issuer._answer(self.headers.get("Authorization", "")))

            def log_message(self, format: str, *arguments: object) -> None:
                """Write nothing."""

            def _send(self, answer: dict[str, Any] | None) -> None:
                body = json.dumps(answer or {"error": "invalid_client"}).encode()
                self.send_response(401 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        return Handler


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8))
