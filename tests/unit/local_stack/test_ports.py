import socket
import subprocess
import sys

from local_stack import ports


def test_a_free_port_can_be_listened_on_at_once() -> None:
    port = ports.free_port()
    with socket.create_server((ports.LOOPBACK, port)):
        assert ports.accepts_connections(port)


def test_no_port_is_handed_out_twice() -> None:
    handed_out = [ports.free_port() for _ in range(300)]
    assert len(set(handed_out)) == len(handed_out)


def test_a_port_is_not_handed_out_by_another_process_before_its_server_listens() -> None:
    port = ports.free_port()
    look = f"from local_stack import ports; ports._FIRST = ports._LAST = {port}; ports.free_port()"
    other = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert f"No free port between {port} and {port}" in other.stderr
