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


def test_ports_are_below_the_range_for_outgoing_connections() -> None:
    assert all(1024 < ports.free_port() < 32_768 for _ in range(50))


def test_a_port_on_which_a_process_listens_is_not_free() -> None:
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        assert not ports.is_free(server.getsockname()[1])


def test_a_port_on_which_no_process_listens_accepts_no_connections() -> None:
    assert not ports.accepts_connections(ports.free_port())
