"""A machine that is gone: no packet comes from it or gets to it, so nobody is told that its connections have ended."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from faults.catalogue import NotPossibleError
from faults.processes import is_alive, stopped
from faults.proxy import Proxy
from faults.site import Site

_Ports = tuple[int, int | None]
"""The port of a connection at the machine, and that at its other end; None for a listener."""


@contextmanager
def gone(site: Site, *processes: psutil.Process) -> Iterator[None]:
    """Let a machine with these processes be gone, until the context is left.

    The proxies are a part of the network: what they have open for the machine is silent as well.

    Raises:
        NotPossibleError: no packets can be dropped here.
    """
    living = [process for process in processes if is_alive(process)]
    with stopped(*living):
        own = {ports for process in living for ports in _connections(process)}
        with _dropped(own.union(_behind_proxies(site, own))):
            yield


@contextmanager
def gone_behind(proxy: Proxy) -> Iterator[None]:
    """Let the machine that clients reach by a proxy be gone, until the context is left.

    Raises:
        NotPossibleError: no packets can be dropped here.
    """
    with _dropped({(proxy.port, None)}):
        yield


def _connections(process: psutil.Process) -> Iterator[_Ports]:
    for connection in process.net_connections("tcp"):
        yield connection.laddr.port, connection.raddr.port if len(connection.raddr) else None


def _behind_proxies(site: Site, own: set[_Ports]) -> Iterator[_Ports]:
    for proxy in (site.postgres, site.kafka):
        for link in proxy.links:
            if link.ports in own:
                yield link.server.getsockname()[1], link.server.getpeername()[1]


@contextmanager
def _dropped(connections: set[_Ports]) -> Iterator[None]:
    chain = f"faults-{os.getpid()}"
    rules = [f"-A {chain} -p tcp {match} -j DROP" for ports in connections for match in _matches(*ports)]
    table = "\n".join(["*filter", f":{chain} - [0:0]", f"-I INPUT -j {chain}", *rules, "COMMIT", ""])
    try:
        subprocess.run(["iptables-restore", "--noflush"], input=table, capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise NotPossibleError(f"no packets can be dropped: {str(reason).strip()}") from error
    # The guard removes the rules when its input ends, that is also when this process is killed.
    script = 'cat > /dev/null; iptables -D INPUT -j "$0"; iptables -F "$0"; iptables -X "$0"'
    with subprocess.Popen(["sh", "-c", script, chain], stdin=subprocess.PIPE, start_new_session=True):
        yield


def _matches(own: int, other: int | None) -> tuple[str, str]:
    """Return what matches the packets from the machine, and those to it."""
    if other is None:
        return f"--sport {own}", f"--dport {own}"
    return f"--sport {own} --dport {other}", f"--sport {other} --dport {own}"
