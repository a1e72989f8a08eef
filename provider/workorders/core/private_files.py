"""Folders and files that no other user of the machine may read or have written."""

import os
import stat
from pathlib import Path
from typing import Final

from workorders.core.exceptions import ConfigurationError

_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def private_folder(path: Path) -> Path:
    """Create a folder that only this user may enter, unless it exists, and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    require_private(path)
    if path.stat().st_uid == os.geteuid() and path.stat().st_mode & _OF_OTHERS:
        path.chmod(0o700)
    return path


def require_private(path: Path) -> None:
    """Refuse a folder or a file whose content others may have written; the superuser could anyway."""
    owners = {path.lstat().st_uid, path.stat().st_uid}
    if not owners <= {os.geteuid(), 0} or path.stat().st_mode & _WRITABLE_BY_OTHERS:
        raise ConfigurationError(
            f"{path} is not this user's alone, so others can have written what would be executed from it; it was not "
            f"used. Look at its content, and delete it; it is created again."
        )


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user may read, in one step."""
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
