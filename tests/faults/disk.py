"""A small disk for the work orders' inputs, which can run full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.catalogue import NotPossibleError
from faults.site import Site
from local_stack.processes import unprivileged_user

_MIB = 2**20
_LEFT_BYTES = 64 * 1024
_SIZE = 8 * _MIB


class SmallDisk:
    """A file system of a few MiB."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave next to nothing free."""
        state = os.statvfs(self._ballast.parent)
        self._ballast.write_bytes(bytes(state.f_bavail * state.f_frsize - _LEFT_BYTES))

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(site: Site) -> Iterator[SmallDisk]:
    """Keep the inputs on a file system in memory, in a tablespace of its own, until the context is left.

    Raises:
        NotPossibleError: nothing may be mounted here.
    """
    folder = site.stack.home / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        folder.rmdir()
        raise NotPossibleError(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        space = folder / "space"
        space.mkdir(mode=0o700)
        if user := unprivileged_user():
            os.chown(space, user["user"], user["group"])
        site.admin(f"CREATE TABLESPACE small LOCATION '{space}'")
        site.admin("ALTER TABLE workorders.dataclips SET TABLESPACE small")
        disk = SmallDisk(folder)
        try:
            yield disk
        finally:
            disk.free()
            site.admin("ALTER TABLE workorders.dataclips SET TABLESPACE pg_default")
            site.admin("DROP TABLESPACE small")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
