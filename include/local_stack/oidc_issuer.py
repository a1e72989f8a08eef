"""A small OIDC issuer: gives tokens for client credentials, over TLS with its own certificate authority."""

import json
import time
from base64 import b64decode, urlsafe_b64encode
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from local_stack.certificates import Authority
from local_stack.loopback_server import LoopbackServer, Request

AUDIENCE = "kafka"
ISSUER = "https://issuer.test"
_SECONDS = 300


class OidcIssuer(LoopbackServer):
    """Gives tokens whose subject is the client's id.

    Args:
        clients: the secret of each client by its id.
    """

    def __init__(self, clients: dict[str, str]) -> None:
        self._clients = clients
        self.authority = Authority.create("issuer's CA")
        self._signer = self.authority.server()
        super().__init__(self._respond, self._signer.server_context())

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

    def _respond(self, request: Request) -> tuple[int, bytes]:
        """Give the keys by which a token is verified, or a token to a client with its secret."""
        if request.method == "GET":
            return 200, json.dumps(self._keys()).encode()
        client, _, secret = (
            b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode().partition(":")
        )
        if not secret or self._clients.get(client) != secret:
            return 401, b'{"error": "invalid_client"}'
        answer = {"access_token": self.token(client), "token_type": "Bearer", "expires_in": _SECONDS}
        return 200, json.dumps(answer).encode()


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8))
