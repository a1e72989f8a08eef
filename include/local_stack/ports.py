"""Free TCP ports on the loopback interface."""

import random
import socket

LOOPBACK = "127.0.0.1"

# Below the range from which the kernel takes ports for outgoing connections (32768 on Linux, 49152 elsewhere): a port
# from inside it could be taken by any client while its server is stopped for a moment.
_FIRST, _LAST = 20_000, 32_000
_ATTEMPTS = 200

# One UDP socket for each port that this process has handed out. A server binds its TCP port seconds after the port was
# chosen, or again after it was stopped, and another process that looks for a port meanwhile would find it free. The
# kernel lets one process alone bind the UDP port of the same number, and releases it when that process ends.
_reservations: list[socket.socket] = []


def free_port() -> int:
    """Return a port on which nothing listens, and which no running process has got from this function.

    Raises:
        OSError: No free port was found.
    """
    for _ in range(_ATTEMPTS):
        port = random.randint(_FIRST, _LAST)  # noqa: S311 - chance saves attempts, it keeps no secret
        if _reserved(port) and is_free(port):
            return port
    raise OSError(f"No free port between {_FIRST} and {_LAST} was found in {_ATTEMPTS} attempts.")


def _reserved(port: int) -> bool:
    reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        reservation.bind((LOOPBACK, port))
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    return True


def is_free(port: int) -> bool:
    """Return whether a server could listen on this port now, on any interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def accepts_connections(port: int) -> bool:
    """Return whether a server accepts connections on this port of the loopback interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0
