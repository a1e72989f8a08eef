"""Who calls: checked by the headers before a body is read, or by the body; and how often a caller may be wrong."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final

from workorders.webhook.authentication import PUBLIC, ApiKey, Basic, Hmac, Secret
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError
from workorders.webhook.requests import Received
from workorders.webhook.secrets import Secrets

FAILURES_PER_SECOND: Final = 1.0
"""So fast a wrong caller earns another chance; with the one that finds none left, that is two wrong ones a second."""
FAILURES_AT_ONCE: Final = 20
TRUST_SECONDS: Final = 600.0
"""So long after a caller was right its address is not held to these limits: behind a proxy many share an address, and
a stranger among them must not lock the others out."""
_MAX_PEERS: Final = 4096
_IPV6_SITE_BITS: Final = 64


class Bucket:
    """Lets a number of attempts a second pass, and a burst at once.

    Args:
        per_second: how fast it fills.
        burst: how much it holds.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._held = float(burst)
        self._at: float | None = None

    def take(self, now: float) -> int:
        """Take one attempt out; return 0, or after how many whole seconds another is free.

        Args:
            now: seconds of a clock that never goes back.
        """
        if self._at is not None:
            self._held = min(self._burst, self._held + (now - self._at) * self._per_second)
        self._at = now
        if self._held >= 1:
            self._held -= 1
            return 0
        return max(1, math.ceil((1 - self._held) / self._per_second))


@dataclass(slots=True)
class _Peer:
    wrong: Bucket = field(default_factory=lambda: Bucket(FAILURES_PER_SECOND, FAILURES_AT_ONCE))
    retry_at: float = 0.0
    trusted_until: float = 0.0


class Callers:
    """Checks callers. Used on the event loop only.

    Args:
        secrets: what callers are checked against.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, secrets: Secrets, clock: Callable[[], float]) -> None:
        self._secrets = secrets
        self._clock = clock
        self._peers: OrderedDict[tuple[str, str], _Peer] = OrderedDict()

    async def check_headers(self, definition: WebhookTriggerDefinition, received: Received) -> None:
        """Check what can be checked before the body is read; for all but signatures that is everything.

        Raises:
            RefusedError: the caller may not call.
            TryAgainError: the secret cannot be had now, or this address was wrong too often.
        """
        method = definition.authentication
        if method == PUBLIC:
            return
        headers = received.by_name
        if missing := method.missing(headers):
            raise _refused(method, missing)
        peer = self._peer(definition, received)
        self._require_few_failures(peer)
        if not isinstance(method, Hmac):
            fault = method.fault(await self._secrets.of(method.connection), headers)
            self._judge(method, peer, fault)

    async def secret(self, definition: WebhookTriggerDefinition) -> Secret | None:
        """Return what the body's signature is checked with; None if the headers have told who calls.

        Raises:
            TryAgainError: it cannot be had now.
        """
        method = definition.authentication
        return await self._secrets.of(method.connection) if isinstance(method, Hmac) else None

    def judge_signature(self, definition: WebhookTriggerDefinition, received: Received, fault: str | None) -> None:
        """Take the answer of `signature_fault`.

        Raises:
            RefusedError: there is a fault.
        """
        if isinstance(definition.authentication, Hmac):
            self._judge(definition.authentication, self._peer(definition, received), fault)

    def _judge(self, method: ApiKey | Basic | Hmac, peer: _Peer, fault: str | None) -> None:
        now = self._clock()
        if fault is None:
            peer.trusted_until = now + TRUST_SECONDS
            return
        peer.retry_at = now + peer.wrong.take(now)
        raise _refused(method, fault)

    def _require_few_failures(self, peer: _Peer) -> None:
        now = self._clock()
        if now < peer.retry_at and now >= peer.trusted_until:
            raise TryAgainError(
                "too-many-failures",
                "Nothing was created: this address has sent too many wrong keys, passwords or signatures.",
                seconds=max(1, round(peer.retry_at - now)),
                status=429,
            )

    def _peer(self, definition: WebhookTriggerDefinition, received: Received) -> _Peer:
        key = (definition.name, site(received.remote_address))
        found = self._peers.setdefault(key, _Peer())
        self._peers.move_to_end(key)
        if len(self._peers) > _MAX_PEERS:
            self._peers.popitem(last=False)
        return found


def signature_fault(definition: WebhookTriggerDefinition, received: Received, secret: Secret) -> str | None:
    """Return what is wrong with the signature of a request; None if nothing is. Reads the whole body."""
    method = definition.authentication
    if not isinstance(method, Hmac):
        return None
    return method.fault(secret, received.by_name, received.body, path=definition.path, now=time.time())


def site(address: str | None) -> str:
    """Return what limits count by: an address, or of IPv6 the network that one customer gets as a whole."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return address or "somebody"
    return address or "" if found.version == 4 else str(ip_network((found, _IPV6_SITE_BITS), strict=False))  # noqa: PLR2004


def _refused(method: ApiKey | Basic | Hmac, fault: str) -> RefusedError:
    challenge = {"WWW-Authenticate": f'{"Basic" if method.type == "basic" else method.type} realm="workorders"'}
    return RefusedError(401, "not-authenticated", f"Nothing was created: {fault}.", challenge)
