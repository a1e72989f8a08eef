"""The webhooks of a folder of trigger files, by path; a file that changes is read again."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.receiving import MAX_BYTES, Room
from workorders.webhook.refusals import RefusedError, TryAgainError, printable

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How long the folder is not looked at again."""
_RETRY_SECONDS = 60

_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Hook:
    """A webhook that takes requests."""

    definition: WebhookTriggerDefinition
    room: Room = field(default_factory=Room, compare=False)
    """What it holds of requests."""


@dataclass(frozen=True, slots=True)
class _File:
    stamp: _Stamp
    definition: TriggerDefinition | None
    """None when the file has a mistake."""


class Hooks:
    """Finds the webhook of a path.

    Args:
        folder: where the trigger files are; None when nobody has said it.
        clock: seconds of a clock that never goes back.
    """

    def __init__(self, folder: Path | None, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._looked_at: float | None = None
        self._files: dict[Path, _File] = {}
        self._hooks: Mapping[str, Hook] = {}

    def at(self, path: str) -> Hook:
        """Return the webhook of a path.

        Raises:
            RefusedError: there is none.
            TryAgainError: it is switched off; or there may be one, in a file that has a mistake now.
        """
        found = self._hooks.get(path)
        if found is not None and not found.definition.enabled:
            raise TryAgainError(
                "disabled", f"Nothing was created: the webhook {path} is switched off for now.", seconds=_RETRY_SECONDS
            )
        if found is not None:
            return found
        if any(file.definition is None for file in self._files.values()):
            raise TryAgainError(
                "not-known-now",
                f"There is no webhook {printable(path)} now, and a trigger file here has a mistake, which may be "
                "the one of it.",
                seconds=_RETRY_SECONDS,
            )
        raise RefusedError(404, "unknown-webhook", f"There is no webhook {printable(path)} here.")

    def share(self, hook: Hook) -> int:
        """Return how many bytes of bodies a webhook may hold: as much as each other one, and at least one body."""
        return max(MAX_BYTES // max(1, len(self._hooks)), hook.definition.max_body_bytes)

    def is_due(self) -> bool:
        """Tell whether the folder has to be looked at before a path is asked for."""
        return self._looked_at is None or self._clock() - self._looked_at >= _LOOK_SECONDS

    def look(self) -> None:
        """Look at the folder, unless somebody else just did. Reads files, so the event loop must not do it.

        Raises:
            TryAgainError: the folder cannot be read.
        """
        if not self.is_due():
            return
        stamps = self._stamps()
        if stamps != {path: file.stamp for path, file in self._files.items()}:
            self._files = {path: self._read(path, stamp) for path, stamp in stamps.items()}
            self._hooks = self._by_path()
        self._looked_at = self._clock()

    def _stamps(self) -> dict[Path, _Stamp]:
        if self._folder is None:
            raise TryAgainError(
                "not-set-up",
                "Nothing says where the trigger files are; set WORKORDERS_TRIGGERS for Airflow's API server.",
                seconds=_RETRY_SECONDS,
            )
        try:
            stats = {path: path.stat() for path in yaml_files(self._folder, "trigger")}
        except (ConfigurationError, OSError) as error:
            _LOG.error("The trigger files cannot be read: %s", error)
            raise TryAgainError(
                "not-set-up", "The folder of trigger files cannot be read now.", seconds=_RETRY_SECONDS
            ) from error
        return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in stats.items()}

    def _read(self, path: Path, stamp: _Stamp) -> _File:
        known = self._files.get(path)
        if known is not None and known.stamp == stamp:
            return known
        try:
            return _File(stamp, load_trigger(path))
        except (ConfigurationError, OSError) as error:
            _LOG.error("A trigger file has a mistake, so its webhook takes nothing: %s", error)
            return _File(stamp, None)

    def _by_path(self) -> dict[str, Hook]:
        before = {hook.definition.name: hook for hook in self._hooks.values()}
        hooks: dict[str, Hook] = {}
        names: set[str] = set()
        for file, read in self._files.items():
            definition = read.definition
            if definition is None or definition.name in names:
                continue
            names.add(definition.name)
            if not isinstance(definition, WebhookTriggerDefinition):
                continue
            if definition.path in hooks:
                _LOG.error(
                    "%s: path: %s belongs to trigger %s already; the webhook of trigger %s takes nothing.",
                    file.name,
                    definition.path,
                    hooks[definition.path].definition.name,
                    definition.name,
                )
                continue
            # Its room stays when its file changes: what arrives by the old definition still needs memory.
            known = before.get(definition.name)
            hooks[definition.path] = Hook(definition, known.room if known else Room())
        return hooks
