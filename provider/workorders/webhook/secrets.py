"""Caches the secrets of webhooks, which Airflow's connections hold."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from workorders.webhook.method import Secret
from workorders.webhook.refusals import TryAgainError

_LOG = logging.getLogger(__name__)

KEEP_SECONDS: Final = 30.0
"""How long a changed secret may go unnoticed; one look-up per request would be a query each."""
FAILURE_SECONDS: Final = 5.0
"""How long no look-up follows a failed one; otherwise each stranger could cause one."""
LAST_KNOWN_SECONDS: Final = 300.0
"""How long a secret remains valid while the secrets backend is unavailable."""
_PATIENCE_SECONDS: Final = 5.0
_SHORT_PATIENCE_SECONDS: Final = 1.0
"""How long a caller waits for a look-up if the last known secret can serve it."""


@dataclass(slots=True)
class _Known:
    """The cached secret of one connection."""

    secret: Secret | None = None
    had_at: float = -math.inf
    ask_at: float = -math.inf
    asking: asyncio.Task[None] | None = None


class Secrets:
    """Looks up secrets, one look-up per connection at a time; other connections do not wait for it.

    Args:
        ask: returns the secret of a connection's id, or raises.
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, ask: Callable[[str], Awaitable[Secret]], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._connections: dict[str, _Known] = {}

    async def get(self, connection_id: str) -> Secret:
        """Return the secret.

        Raises:
            TryAgainError: it is unavailable, or the connection has no password, which would admit everybody.
        """
        known = self._connections.setdefault(connection_id, _Known())
        if self._clock() >= known.ask_at:
            await self._refresh(connection_id, known)
        if known.secret is not None and self._clock() - known.had_at < LAST_KNOWN_SECONDS:
            return known.secret
        raise TryAgainError(
            "cannot-authenticate",
            "Nothing was created: callers of this webhook cannot be authenticated, because its secret is unavailable.",
        )

    async def _refresh(self, connection_id: str, known: _Known) -> None:
        if known.asking is None:
            known.asking = asyncio.create_task(self._look_up(connection_id, known))
        # Not cancelled with the caller or by the time limit, because the result is for all callers.
        patience = _PATIENCE_SECONDS if known.secret is None else _SHORT_PATIENCE_SECONDS
        done, _ = await asyncio.wait({known.asking}, timeout=patience)
        if not done:
            known.ask_at = self._clock() + FAILURE_SECONDS

    async def _look_up(self, connection_id: str, known: _Known) -> None:
        try:
            secret = await self._ask(connection_id)
        except Exception as error:  # noqa: BLE001 - a secrets backend may raise anything; no caller is admitted
            _LOG.error("The Airflow connection %s cannot be read: %s", connection_id, type(error).__name__)
            known.ask_at = self._clock() + FAILURE_SECONDS
        else:
            now = self._clock()
            known.secret, known.had_at, known.ask_at = secret, now, now + KEEP_SECONDS
            if not secret.password:
                _LOG.error("The Airflow connection %s has no password, so every call is refused.", connection_id)
                known.secret, known.ask_at = None, now + FAILURE_SECONDS
        finally:
            known.asking = None
