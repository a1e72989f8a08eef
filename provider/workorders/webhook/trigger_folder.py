"""The webhooks of a folder of trigger files, for the server that has the folder."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS, Workflows, load_trigger
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.environment import workflow_folder
from workorders.core.exceptions import ConfigurationError
from workorders.webhook.refusals import TryAgainError

_LOG = logging.getLogger(__name__)

_Stamps = Mapping[str, tuple[int, int, int]]


class TriggerFolder:
    """Reads trigger files, of any type, with the definitions of their workflows.

    Args:
        folder: the trigger files. The workflow files are in the folder that the environment names, or in `workflows`
            next to it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workflow_folder = workflow_folder(folder.parent / "workflows")
        self._workflow_stamps: _Stamps = {}
        self._workflows = Workflows({})

    def stamps(self) -> Mapping[str, object]:
        """Return what changes when a file or a workflow does, by the file's name.

        Raises:
            TryAgainError: the folder cannot be read.
        """
        try:
            triggers = _stamps(TRIGGERS.files(self._folder))
            workflows = _stamps(WORKFLOWS.files(self._workflow_folder, may_be_missing=True))
        except (ConfigurationError, OSError) as error:
            _LOG.error("The trigger files cannot be read: %s", error)
            raise TryAgainError(
                "not-set-up", "The folder of trigger files cannot be read; nothing was created."
            ) from error
        if workflows != self._workflow_stamps:
            self._workflows = Workflows(WORKFLOWS.sources(self._workflow_folder / name for name in workflows))
            self._workflow_stamps = workflows
        return {name: (stamp, self._workflows) for name, stamp in triggers.items()}

    def load(self, name: str) -> TriggerDefinition | None:
        """Return the definition of a file; None, and a line of the log, if the file is wrong."""
        try:
            definition = load_trigger(self._folder / name)
        except (ConfigurationError, OSError) as error:
            _LOG.error("A trigger file is wrong, so its webhook accepts no request: %s", error)
            return None
        return definition.with_workflow(self._workflows.find(definition.workflow))


def _stamps(files: Iterable[Path]) -> _Stamps:
    stats = {path.name: path.stat() for path in files}
    return {name: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats.items()}
