"""The webhooks of the database by path; they are read again when one changes."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from anyio import CapacityLimiter

from workorders.core.definitions.validation import validate
from workorders.core.exceptions import ConfigurationError
from workorders.core.kept_value import KeptValue
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError, printable
from workorders.webhook.stored_webhooks import StoredWebhook

_LOG = logging.getLogger(__name__)

THREADS: Final = 4
"""Requests of one webhook that are processed at the same time."""
_LOOK_SECONDS: Final = 1.0
"""Changes are looked for at most once per this time."""


@dataclass
class Hook:
    """A webhook that takes requests."""

    definition: WebhookTriggerDefinition
    threads: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(THREADS))
    """Its threads: the other webhooks and Airflow's pages have others, which stay free while a database hangs."""
    body_bytes: int = 0
    """Bytes of the bodies that it holds."""
    requests: int = 0
    """Requests whose bodies have arrived, and that are not done."""
    waiting: int = 0
    """Callers that wait for results."""


class Hooks:
    """Finds the webhook of a path."""

    def __init__(self, list_stored: Callable[[], Sequence[StoredWebhook]], clock: Callable[[], float]) -> None:
        self._list_stored = list_stored
        self._rows: Sequence[StoredWebhook] = ()
        self._hooks: dict[str, Hook] = {}
        self._kept = KeptValue(self._reload, clock, seconds=_LOOK_SECONDS, failure_seconds=_LOOK_SECONDS)

    async def find(self, path: str) -> Hook:
        """Return the webhook of a path.

        Raises:
            RefusedError: there is none.
            TryAgainError: it is disabled, its definition is wrong, or the definitions cannot be read now.
        """
        try:
            await self._kept.get()
        except TimeoutError as error:
            raise TryAgainError("not-set-up", "The webhooks cannot be read now; nothing was created.") from error
        if (found := self._hooks.get(path)) is not None:
            if found.definition.enabled:
                return found
            raise TryAgainError("disabled", f"Nothing was created: the webhook {path} is disabled.")
        if path in (row.path for row in self._rows):
            raise TryAgainError(
                "not-known-now", f"This version cannot read the webhook {printable(path)}. Nothing was created."
            )
        raise RefusedError(404, "unknown-webhook", f"There is no webhook {printable(path)}; nothing was created.")

    def _reload(self) -> None:
        rows = self._list_stored()
        if rows == self._rows:
            return
        hooks: dict[str, Hook] = {}
        for row in rows:
            where = f"Webhook {row.name} in the database"
            try:
                definition = validate(row.definition, WebhookTriggerDefinition, where=where)
            except ConfigurationError as error:
                _LOG.error("A definition is wrong, and its webhook accepts no request: %s", error)
            else:
                hooks[definition.path] = Hook(definition)
        self._rows, self._hooks = rows, hooks
