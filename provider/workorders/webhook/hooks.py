"""The webhooks by path; the definitions are read again when one changes."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from workorders.core.definitions.trigger import TriggerDefinition
from workorders.webhook.capacity import MAX_BYTES, Capacity
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError, printable
from workorders.webhook.stored_webhooks import StoredWebhooks
from workorders.webhook.trigger_folder import TriggerFolder

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Changes are looked for at most once per this time."""


@dataclass(frozen=True)
class Hook:
    """A webhook that takes requests."""

    definition: WebhookTriggerDefinition
    capacity: Capacity = field(default_factory=Capacity, compare=False)
    """What it holds of its requests."""


class Hooks:
    """Finds the webhook of a path.

    Args:
        definitions: where the definitions are.
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, definitions: TriggerFolder | StoredWebhooks, clock: Callable[[], float]) -> None:
        self._definitions = definitions
        self._clock = clock
        self._looked_at: float | None = None
        self._stamps: object = None
        self._has_mistakes = False
        self._hooks: Mapping[str, Hook] = {}

    def get(self, path: str) -> Hook:
        """Return the webhook of a path.

        Raises:
            RefusedError: there is none.
            TryAgainError: it is disabled; or a definition that is wrong may be its.
        """
        found = self._hooks.get(path)
        if found is not None and not found.definition.enabled:
            raise TryAgainError("disabled", f"Nothing was created: the webhook {path} is disabled.")
        if found is not None:
            return found
        if self._has_mistakes:
            raise TryAgainError(
                "not-known-now",
                f"There is no webhook {printable(path)}, but a trigger file with a mistake may define it. Nothing was "
                "created.",
            )
        raise RefusedError(404, "unknown-webhook", f"There is no webhook {printable(path)}; nothing was created.")

    def max_bytes_of(self, hook: Hook) -> int:
        """Return how many bytes of bodies a webhook may hold: an equal share for each, and at least one body."""
        return max(MAX_BYTES // max(1, len(self._hooks)), hook.definition.max_body_bytes)

    def is_reload_due(self) -> bool:
        """Return whether the definitions must be read before a webhook is looked up."""
        return self._looked_at is None or self._clock() - self._looked_at >= _LOOK_SECONDS

    def reload(self) -> None:
        """Read what has changed, unless another request just did. It blocks, so it must not run on the event loop.

        Raises:
            TryAgainError: the definitions cannot be read now.
        """
        if not self.is_reload_due():
            return
        stamps = self._definitions.stamps()
        if stamps != self._stamps:
            definitions, mistakes = self._definitions.load()
            for mistake in mistakes:
                _LOG.error("A definition is wrong, and its webhook accepts no request: %s", mistake.error)
            self._stamps, self._has_mistakes, self._hooks = stamps, bool(mistakes), self._by_path(definitions)
        self._looked_at = self._clock()

    def _by_path(self, definitions: Sequence[TriggerDefinition]) -> dict[str, Hook]:
        before = {hook.definition.name: hook for hook in self._hooks.values()}
        hooks: dict[str, Hook] = {}
        for definition in definitions:
            if not isinstance(definition, WebhookTriggerDefinition):
                continue
            if definition.path in hooks:
                _LOG.error(
                    "The webhook of trigger %s accepts no request: path: %s is already the path of trigger %s.",
                    definition.name,
                    definition.path,
                    hooks[definition.path].definition.name,
                )
                continue
            # The counts stay when the definition changes: requests of the old one still use memory.
            known = before.get(definition.name)
            hooks[definition.path] = Hook(definition, known.capacity if known else Capacity())
        return hooks
