"""The folders of what a user makes or downloads once for Spark, and of the tokens of Spark Connect servers."""

import os
from pathlib import Path

from workorders.core.private_files import private_folder, require_private


def cache_folder(name: str) -> Path:
    """Return a folder below `XDG_CACHE_HOME` or `~/.cache`, which need not exist.

    Raises:
        ConfigurationError: others may have written to it, and the JVM and the executors would run what they wrote.
    """
    for folder in (_root(), _root() / name):
        if folder.exists():
            require_private(folder)
    return _root() / name


def make_cache_folder(name: str) -> Path:
    """Return the folder as `cache_folder` does; create it if needed, so that only this user may enter it."""
    private_folder(_root())
    return private_folder(_root() / name)


def token_file(port: int) -> Path:
    """Return the file of the token that a Spark Connect server here has made for itself; see `cache_folder`."""
    return cache_folder("spark-connect") / f"{port}.token"


def _root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workorders"
