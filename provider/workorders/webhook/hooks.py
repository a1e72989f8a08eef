"""The webhooks of a folder of trigger files, by path; a file that changes is read again."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.webhook.capacity import MAX_BYTES, Capacity
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError, printable

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""The folder is read at most once per this time."""

_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Hook:
    """A webhook that takes requests."""

    definition: WebhookTriggerDefinition
    capacity: Capacity = field(default_factory=Capacity, compare=False)
    """What it holds of its requests."""


class Hooks:
    """Finds the webhook of a path.

    Args:
        folder: where the trigger files are; None if it is not configured.
        clock: returns the seconds of a monotonic clock.
    """

    def __init__(self, folder: Path | None, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._looked_at: float | None = None
        self._stamps: dict[Path, _Stamp] = {}
        self._files: dict[Path, TriggerDefinition | None] = {}  # None if the file is wrong
        self._hooks: Mapping[str, Hook] = {}

    def get(self, path: str) -> Hook:
        """Return the webhook of a path.

        Raises:
            RefusedError: there is none.
            TryAgainError: it is disabled; or a file that is wrong may define it.
        """
        found = self._hooks.get(path)
        if found is not None and not found.definition.enabled:
            raise TryAgainError("disabled", f"Nothing was created: the webhook {path} is disabled.")
        if found is not None:
            return found
        if None in self._files.values():
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
        """Return whether the folder must be read before a webhook is looked up."""
        return self._looked_at is None or self._clock() - self._looked_at >= _LOOK_SECONDS

    def reload(self) -> None:
        """Read the folder, unless another request just did. It blocks, so it must not run on the event loop.

        Raises:
            TryAgainError: the folder cannot be read.
        """
        if not self.is_reload_due():
            return
        stamps = self._read_stamps()
        if stamps != self._stamps:
            known = {path: self._files[path] for path, stamp in self._stamps.items() if stamps.get(path) == stamp}
            self._files = {path: known[path] if path in known else _read(path) for path in stamps}
            self._stamps = stamps
            self._hooks = self._by_path()
        self._looked_at = self._clock()

    def _read_stamps(self) -> dict[Path, _Stamp]:
        if self._folder is None:
            raise TryAgainError(
                "not-set-up",
                "The folder of trigger files is not configured; set WORKORDERS_TRIGGERS for Airflow's API server.",
            )
        try:
            stats = {path: path.stat() for path in yaml_files(self._folder, "trigger")}
        except (ConfigurationError, OSError) as error:
            _LOG.error("The trigger files cannot be read: %s", error)
            raise TryAgainError(
                "not-set-up", "The folder of trigger files cannot be read; nothing was created."
            ) from error
        return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in stats.items()}

    def _by_path(self) -> dict[str, Hook]:
        before = {hook.definition.name: hook for hook in self._hooks.values()}
        hooks: dict[str, Hook] = {}
        names: set[str] = set()
        for file, definition in self._files.items():
            if definition is None or definition.name in names:
                continue
            names.add(definition.name)
            if not isinstance(definition, WebhookTriggerDefinition):
                continue
            if definition.path in hooks:
                _LOG.error(
                    "%s: path: %s is already the path of trigger %s; the webhook of trigger %s accepts no request.",
                    file.name,
                    definition.path,
                    hooks[definition.path].definition.name,
                    definition.name,
                )
                continue
            # The counts stay when the file changes: requests of the old definition still use memory.
            known = before.get(definition.name)
            hooks[definition.path] = Hook(definition, known.capacity if known else Capacity())
        return hooks


def _read(path: Path) -> TriggerDefinition | None:
    try:
        return load_trigger(path)
    except (ConfigurationError, OSError) as error:
        _LOG.error("A trigger file is wrong, so its webhook accepts no request: %s", error)
        return None
