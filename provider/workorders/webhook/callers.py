"""Authenticates callers, by the headers before a body is read or by its signature, and bounds the failures of each."""

import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Final

from workorders.webhook.authentication import PUBLIC
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.method import Method, Secret, SignatureMethod
from workorders.webhook.refusals import RefusedError, TryAgainError
from workorders.webhook.requests import Received
from workorders.webhook.secrets import Secrets
from workorders.webhook.threads import Threads

FAILURES_PER_SECOND: Final = 1.0
"""Failures per second that an address may have; the failure that finds none left makes it two per second."""
FAILURES_AT_ONCE: Final = 20
TRUST_SECONDS: Final = 600.0
"""For this time after a success, the limits do not apply to an address: behind a proxy many callers share one, and a
stranger among them must not lock the others out."""
_MAX_PEERS: Final = 4096
_IPV6_NETWORK_BITS: Final = 64


class Bucket:
    """A token bucket: a number of attempts per second, and a burst.

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
        """Take a token; return 0, or in how many whole seconds the next one is available.

        Args:
            now: seconds of a monotonic clock.
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
    """Authenticates callers. Used on the event loop only.

    Args:
        secrets: what callers are checked against.
        threads: where signatures are checked.
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, secrets: Secrets, threads: Threads, clock: Callable[[], float]) -> None:
        self._secrets = secrets
        self._threads = threads
        self._clock = clock
        self._peers: OrderedDict[tuple[str, str], _Peer] = OrderedDict()

    async def check_headers(self, definition: WebhookTriggerDefinition, received: Received) -> None:
        """Authenticate by the headers, before the body is read; only signatures need the body.

        Raises:
            RefusedError: the caller may not call.
            TryAgainError: the secret is unavailable, or this address has failed too often.
        """
        method = definition.authentication
        if method == PUBLIC:
            return
        headers = received.by_name
        if missing := method.missing(headers):
            raise _refused(method, missing)
        peer = self._peer(definition, received)
        self._require_few_failures(peer)
        if not isinstance(method, SignatureMethod):

            async def find_fault(secret: Secret) -> str | None:
                return method.fault(secret, headers)

            self._require(method, peer, await self._fault(method, find_fault))

    async def check_signature(self, definition: WebhookTriggerDefinition, received: Received) -> None:
        """Authenticate by the signature of the complete body, if that is the webhook's method.

        Raises:
            RefusedError: the caller may not call.
            TryAgainError: the secret is unavailable.
        """
        method = definition.signature
        if method is None:
            return
        headers, body = received.by_name, received.body

        async def find_fault(secret: Secret) -> str | None:
            return await self._threads.run(
                definition.name,
                lambda: method.fault(secret, headers, body, path=definition.path, now=time.time()),
                is_known=False,
            )

        self._require(method, self._peer(definition, received), await self._fault(method, find_fault))

    async def _fault(self, method: Method, find_fault: Callable[[Secret], Awaitable[str | None]]) -> str | None:
        """Return why no secret of the webhook admits the caller; None if one does.

        Raises:
            TryAgainError: none of those that are available does, and another one is unavailable.
        """
        faults: list[str] = []
        unavailable: TryAgainError | None = None
        for connection in method.connections:
            try:
                fault = await find_fault(await self._secrets.get(connection))
            except TryAgainError as error:
                unavailable = error
                continue
            if fault is None:
                return None
            faults.append(fault)
        if unavailable is not None:
            raise unavailable
        return faults[0]

    def _require(self, method: Method, peer: _Peer, fault: str | None) -> None:
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
        key = (definition.name, network_of(received.remote_address))
        found = self._peers.setdefault(key, _Peer())
        self._peers.move_to_end(key)
        if len(self._peers) > _MAX_PEERS:
            self._peers.popitem(last=False)
        return found


def network_of(address: str | None) -> str:
    """Return the key that limits count by: an IPv4 address, or the IPv6 network that one customer gets as a whole."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return address or "unknown"
    return address or "" if found.version == 4 else str(ip_network((found, _IPV6_NETWORK_BITS), strict=False))  # noqa: PLR2004


def _refused(method: Method, fault: str) -> RefusedError:
    challenge = {"WWW-Authenticate": f'{method.scheme} realm="workorders"'}
    return RefusedError(401, "not-authenticated", f"Nothing was created: {fault}.", challenge)
