"""Authenticates callers, by the headers before a body is read or by the signature of the body."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from workorders.core.kept_value import KeptValue
from workorders.webhook.authentication import PUBLIC, Method, Secret, SignatureMethod
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError
from workorders.webhook.requests import Received

_LOG = logging.getLogger(__name__)

KEEP_SECONDS: Final = 30.0
"""How long a changed secret may go unnoticed."""
FAILURE_SECONDS: Final = 5.0
STALE_SECONDS: Final = 300.0
"""How long a secret remains valid while the secrets backend is unavailable."""


class Callers:
    """Authenticates callers by the secrets that Airflow's connections hold. Used on one event loop.

    `ask` returns the secret of a connection's id, or raises; it may block.
    """

    def __init__(self, ask: Callable[[str], Secret], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._kept: dict[str, KeptValue[Secret]] = {}

    async def check_headers(self, definition: WebhookTriggerDefinition, received: Received) -> None:
        """Authenticate by the headers, before the body is read; only signatures need the body.

        No secret is looked up for a caller without credentials of the right form.
        """
        method = definition.authentication
        if method == PUBLIC:
            return
        if missing := method.missing(received.by_name):
            raise _refused(method, missing)
        if not isinstance(method, SignatureMethod):
            await self._require(method, received)

    async def check_signature(
        self, definition: WebhookTriggerDefinition, received: Received, threads: CapacityLimiter
    ) -> None:
        """Authenticate by the signature of the complete body, if that is the webhook's method."""
        if definition.signature is not None:
            await self._require(definition.signature, received, threads)

    async def _require(self, method: Method, received: Received, threads: CapacityLimiter | None = None) -> None:
        """Refuse a caller that no secret of the webhook admits."""
        faults: list[str] = []
        for connection in method.connections:
            secret = await self._find_secret(connection)
            if secret is None:
                continue
            check = partial(method.fault, secret, received.by_name, received.body, now=time.time())
            fault = await run_sync(check, limiter=threads) if threads else check()
            if fault is None:
                return
            faults.append(fault)
        if len(faults) < len(method.connections):
            raise TryAgainError(
                "cannot-authenticate",
                "Nothing was created: callers of this webhook cannot be authenticated, because its secret is "
                "unavailable.",
            )
        raise _refused(method, faults[0])

    async def _find_secret(self, connection_id: str) -> Secret | None:
        """Return the secret; None if it is unavailable, or without a password, which would admit everybody."""
        if connection_id not in self._kept:
            self._kept[connection_id] = KeptValue(
                partial(self._look_up, connection_id),
                self._clock,
                seconds=KEEP_SECONDS,
                failure_seconds=FAILURE_SECONDS,
                stale_seconds=STALE_SECONDS,
            )
        try:
            secret = await self._kept[connection_id].get()
        except Exception:  # noqa: BLE001 - a secrets backend may raise anything
            return None
        return secret if secret.password else None

    def _look_up(self, connection_id: str) -> Secret:
        try:
            secret = self._ask(connection_id)
        except Exception as error:
            _LOG.error("The Airflow connection %s cannot be read: %s", connection_id, type(error).__name__)
            raise
        if not secret.password:
            _LOG.error("The Airflow connection %s has no password, so every call is refused.", connection_id)
        return secret


def _refused(method: Method, fault: str) -> RefusedError:
    challenge = {"WWW-Authenticate": f'{getattr(method, "type", "")} realm="workorders"'}
    return RefusedError(401, "not-authenticated", f"Nothing was created: {fault}.", challenge)
