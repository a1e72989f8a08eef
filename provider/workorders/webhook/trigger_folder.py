"""The webhooks of a folder of trigger files, for the server that has the folder."""

import logging
from collections.abc import Sequence
from pathlib import Path

from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, Mistake, read
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.environment import workflow_folder
from workorders.core.exceptions import ConfigurationError
from workorders.webhook.refusals import TryAgainError

_LOG = logging.getLogger(__name__)


class TriggerFolder:
    """Reads trigger files, of any type, with the definitions of their workflows.

    Args:
        folder: the trigger files. The workflow files are in the folder that the environment names, or in `workflows`
            next to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workflow_folder = workflow_folder(folder.parent / "workflows")
        self._triggers: list[Path] = []
        self._workflows: list[Path] = []

    def stamps(self) -> object:
        """Return what changes when a trigger or a workflow file does.

        Raises:
            TryAgainError: the folder cannot be read.
        """
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
