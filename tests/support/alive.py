"""Whether processes of a test are alive."""

import psutil


def is_alive(pid: int) -> bool:
    """Return whether there is a process of this id that has not ended; what is left of one is its exit code alone."""
    try:
        return psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.NoSuchProcess:
        return False
