"""The webhooks by path, of a folder of trigger files or of the database; they are read again when one changes."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from anyio import CapacityLimiter

from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, Mistake, read
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.environment import workflow_folder
from workorders.core.exceptions import ConfigurationError
from workorders.core.kept_value import KeptValue
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.refusals import RefusedError, TryAgainError, printable
from workorders.webhook.stored_webhooks import StoredWebhooks

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


class TriggerFolder:
    """Reads trigger files, of any type, with the definitions of their workflows.

    The workflow files are in the folder that the environment names, or in `workflows` next to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workflow_folder = workflow_folder(folder.parent / "workflows")
        self._triggers: list[Path] = []
        self._workflows: list[Path] = []

    def stamps(self) -> object:
        """Return what changes when a trigger or a workflow file does."""
        try:
            self._triggers = TRIGGERS.files(self._folder)
            self._workflows = WORKFLOWS.files(self._workflow_folder, may_be_missing=True)
            files = {path: path.stat() for path in (*self._triggers, *self._workflows) if path.exists()}
        except (ConfigurationError, OSError) as error:
            _LOG.error("The trigger files cannot be read: %s", error)
            raise TryAgainError(
                "not-set-up", "The folder of trigger files cannot be read; nothing was created."
            ) from error
        return {path: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items()}

    def load(self) -> tuple[Sequence[TriggerDefinition], Sequence[Mistake]]:
        """Return the triggers that the last stamps are of, each with its workflow, and the mistakes of their files."""
        workflows, found = read(WORKFLOWS, self._workflows), read(TRIGGERS, self._triggers)
        triggers = [trigger.with_workflow(workflows.find(trigger.workflow)) for trigger in found.definitions.values()]
        return triggers, found.mistakes


class Hooks:
    """Finds the webhook of a path."""

    def __init__(self, definitions: TriggerFolder | StoredWebhooks, clock: Callable[[], float]) -> None:
        self._definitions = definitions
        self._stamps: object = None
        self._has_mistakes = False
        self._hooks: dict[str, Hook] = {}
        self._kept = KeptValue(self._reload, clock, seconds=_LOOK_SECONDS, failure_seconds=_LOOK_SECONDS)

    async def find(self, path: str) -> Hook:
        """Return the webhook of a path.

        Raises:
            RefusedError: there is none.
            TryAgainError: it is disabled, a definition that is wrong may be its, or the definitions cannot be read now.
        """
        try:
            await self._kept.get()
        except TimeoutError as error:
            raise TryAgainError("not-set-up", "The webhooks cannot be read now; nothing was created.") from error
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

    def _reload(self) -> None:
        """Read what has changed."""
        stamps = self._definitions.stamps()
        if stamps != self._stamps:
            definitions, mistakes = self._definitions.load()
            for mistake in mistakes:
                _LOG.error("A definition is wrong, and its webhook accepts no request: %s", mistake.error)
            self._stamps, self._has_mistakes, self._hooks = stamps, bool(mistakes), _by_path(definitions)


def _by_path(definitions: Sequence[TriggerDefinition]) -> dict[str, Hook]:
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
        hooks[definition.path] = Hook(definition)
    return hooks
