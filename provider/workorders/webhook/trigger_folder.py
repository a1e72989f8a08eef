"""The webhooks of a folder of trigger files, for the server that has the folder."""

import logging
from collections.abc import Mapping
from pathlib import Path

from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.exceptions import ConfigurationError
from workorders.webhook.refusals import TryAgainError

_LOG = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class TriggerFolder:
    """Reads trigger files, of any type.

    Args:
        folder: where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def stamps(self) -> Mapping[str, _Stamp]:
        """Return what changes when a file does, by the file's name.

        Raises:
            TryAgainError: the folder cannot be read.
        """
        try:
            stats = {path.name: path.stat() for path in yaml_files(self._folder, "trigger")}
        except (ConfigurationError, OSError) as error:
            _LOG.error("The trigger files cannot be read: %s", error)
            raise TryAgainError(
                "not-set-up", "The folder of trigger files cannot be read; nothing was created."
            ) from error
        return {name: (stat.st_mtime_ns, stat.st_size, stat.st_ino) for name, stat in stats.items()}

    def load(self, name: str) -> TriggerDefinition | None:
        """Return the definition of a file; None, and a line of the log, if the file is wrong."""
        try:
            return load_trigger(self._folder / name)
        except (ConfigurationError, OSError) as error:
            _LOG.error("A trigger file is wrong, so its webhook accepts no request: %s", error)
            return None
