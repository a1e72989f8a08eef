"""The webhooks by path; a definition that changes is read again."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from workorders.core.definitions.trigger import TriggerDefinition
from workorders.webhook.capacity import MAX_BYTES, Capacity
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError, printable

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Changes are looked for at most once per this time."""


class Definitions(Protocol):
    """Where the definitions are: a folder of trigger files, or the database."""

    def stamps(self) -> Mapping[str, object]:
        """Return what changes when a definition does, by the key of the definition.

        Raises:
            TryAgainError: the definitions cannot be read now.
        """

    def load(self, key: str) -> TriggerDefinition | None:
        """Return a definition; None if it is wrong, after a line in the log.

        Raises:
            TryAgainError: it cannot be read now.
        """


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

    def __init__(self, definitions: Definitions, clock: Callable[[], float]) -> None:
        self._definitions = definitions
        self._clock = clock
        self._looked_at: float | None = None
        self._stamps: Mapping[str, object] = {}
        self._known: dict[str, TriggerDefinition | None] = {}  # None if the definition is wrong
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
        if None in self._known.values():
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
            unchanged = {key for key, stamp in self._stamps.items() if stamps.get(key) == stamp}
            self._known = {key: self._known[key] if key in unchanged else self._definitions.load(key) for key in stamps}
            self._stamps = stamps
            self._hooks = self._by_path()
        self._looked_at = self._clock()

    def _by_path(self) -> dict[str, Hook]:
        before = {hook.definition.name: hook for hook in self._hooks.values()}
        hooks: dict[str, Hook] = {}
        names: set[str] = set()
        for key, definition in self._known.items():
            if definition is None or definition.name in names:
                continue
            names.add(definition.name)
            if not isinstance(definition, WebhookTriggerDefinition):
                continue
            if definition.path in hooks:
                _LOG.error(
                    "%s: path: %s is already the path of trigger %s; the webhook of trigger %s accepts no request.",
                    key,
                    definition.path,
                    hooks[definition.path].definition.name,
                    definition.name,
                )
                continue
            # The counts stay when the definition changes: requests of the old one still use memory.
            known = before.get(definition.name)
            hooks[definition.path] = Hook(definition, known.capacity if known else Capacity())
        return hooks
