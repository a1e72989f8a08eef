"""A client whose machine is gone: its kernel answers nothing more, neither data nor probes nor the end."""

import ctypes
import os
import socket
import struct
from typing import Final

from workorders.core.postgres.connection import Connection

_ATTACH_FILTER: Final = 26
"""SO_ATTACH_FILTER, and below SO_DETACH_FILTER, which the module socket does not name."""
_DETACH_FILTER: Final = 27
_RETURN: Final = 0x06


def vanish(connection: Connection) -> None:
    """Let the kernel drop every packet that comes to this connection, unacknowledged, as a dead machine does.

    A proxy cannot do that, and neither can a stopped process: a kernel answers for both.
    """
    drop_all = ctypes.create_string_buffer(struct.pack("HBBI", _RETURN, 0, 0, 0))
    program = struct.pack("HP", 1, ctypes.addressof(drop_all))
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def come_back(connection: Connection) -> None:
    """Let the machine be there again, for a client that knows nothing of what was meanwhile."""
    with socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
