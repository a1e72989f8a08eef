"""A small disk for one table, the work orders' inputs if not told otherwise, which can run full."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.catalogue import NotPossibleError
from faults.site import Site
from local_stack.processes import unprivileged_user

_MIB = 2**20
_ROOM = 8 * _MIB


class SmallDisk:
    """A file system with a few MiB free."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave nothing free."""
        state = os.statvfs(self._ballast.parent)
        self._ballast.write_bytes(bytes(state.f_bavail * state.f_frsize))

    def free(self) -> None:
        """Make room again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(site: Site, table: str = "workorders.dataclips") -> Iterator[SmallDisk]:
    """Keep a table on a file system in memory, in its own tablespace, until the context is left.

    Raises:
        NotPossibleError: nothing may be mounted here.
    """
    # What was deleted or rolled back would leave room inside of the table.
    site.admin(f"VACUUM FULL {table}")
    ((used,),) = site.admin("SELECT pg_total_relation_size(%(table)s)", {"table": table})
    folder = site.stack.home / "small"
    folder.mkdir()
    with _mounted(folder, used + _ROOM):
        space = folder / "space"
        space.mkdir(mode=0o700)
        if user := unprivileged_user():
            os.chown(space, user["user"], user["group"])
        site.admin(f"CREATE TABLESPACE small LOCATION '{space}'")
        site.admin(f"ALTER TABLE {table} SET TABLESPACE small")
        disk = SmallDisk(folder)
        try:
            yield disk
        finally:
            disk.free()
            site.admin(f"ALTER TABLE {table} SET TABLESPACE pg_default")
            site.admin("DROP TABLESPACE small")


@contextmanager
def _mounted(folder: Path, size: int) -> Iterator[None]:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        folder.rmdir()
        raise NotPossibleError(f"no file system can be mounted: {mounted.stderr.strip()}")
    # The guard unmounts when its input ends, that is also when this process is killed.
    script = 'cat > /dev/null; umount --lazy "$0"; rmdir "$0"'
    with subprocess.Popen(["sh", "-c", script, str(folder)], stdin=subprocess.PIPE, start_new_session=True):
        yield
