"""Secrets of webhooks out of Airflow's connections, kept for a moment."""

import logging
from collections.abc import Callable
from threading import Lock

from workorders.webhook.authentication import Secret
from workorders.webhook.exceptions import TryAgainError

_LOG = logging.getLogger(__name__)

_KEEP_SECONDS = 30.0
"""So long a changed secret may go unnoticed; asking for every request would be a query each."""
_RETRY_SECONDS = 60


class Secrets:
    """Looks secrets up.

    Args:
        ask: returns what the connection of an id holds, or raises.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, ask: Callable[[str], Secret], clock: Callable[[], float]) -> None:
        self._ask = ask
        self._clock = clock
        self._known: dict[str, tuple[float, Secret]] = {}
        self._lock = Lock()

    def of(self, connection_id: str) -> Secret:
        """Return the secret.

        Raises:
            TryAgainError: it cannot be had now, or the connection has no password, which would let everybody in.
        """
        with self._lock:
            kept = self._known.get(connection_id)
            if kept is not None and self._clock() - kept[0] < _KEEP_SECONDS:
                return kept[1]
            secret = self._look_up(connection_id)
            self._known[connection_id] = (self._clock(), secret)
            return secret

    def _look_up(self, connection_id: str) -> Secret:
        try:
            secret = self._ask(connection_id)
        except Exception as error:  # noqa: BLE001 - a secrets backend may raise anything, and the door stays closed
            _LOG.error("The Airflow connection %s cannot be read: %s", connection_id, type(error).__name__)
        else:
            if secret.password:
                return secret
            _LOG.error("The Airflow connection %s has no password, so nobody may call.", connection_id)
        raise TryAgainError(
            "cannot-authenticate",
            "Nothing was created, for callers of this webhook cannot be told apart now; its secret is not at hand.",
            seconds=_RETRY_SECONDS,
        )
