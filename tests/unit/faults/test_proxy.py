"""The proxy does what it is told, and nothing else."""

import socket
import threading
from collections.abc import Iterator

import pytest

from faults.proxy import Proxy
from local_stack.ports import LOOPBACK
from local_stack.waiting import wait_until

SECONDS = 10.0


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before a server that repeats what it hears."""
    server = socket.create_server((LOOPBACK, 0))

    def repeat(client: socket.socket) -> None:
        with client:
            while data := client.recv(1024):
                client.sendall(data)

    def serve() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=repeat, args=(client,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    made = Proxy(server.getsockname()[1])
    yield made
    made.close()
    server.close()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with socket.create_connection((LOOPBACK, proxy.port), timeout=SECONDS) as client:
        assert echoes(client, b"hello")
        yield client


def echoes(client: socket.socket, word: bytes) -> bool:
    client.sendall(word)
    return client.recv(1024) == word


def test_a_cut_ends_the_connections_that_are_there_and_no_later_one(proxy: Proxy, client: socket.socket) -> None:
    assert proxy.cut() == 1
    assert client.recv(1024) == b""
    with socket.create_connection((LOOPBACK, proxy.port), timeout=SECONDS) as later:
        assert echoes(later, b"again")


def test_an_unreachable_server_refuses_and_is_there_again_afterwards(proxy: Proxy, client: socket.socket) -> None:
    with proxy.unreachable() as cut:
        assert cut == 1
        assert client.recv(1024) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((LOOPBACK, proxy.port), timeout=SECONDS)
    with socket.create_connection((LOOPBACK, proxy.port), timeout=SECONDS) as later:
        assert echoes(later, b"again")


def test_a_stall_holds_everything_back_and_loses_nothing(proxy: Proxy, client: socket.socket) -> None:
    with proxy.stalled():
        client.sendall(b"held")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1024)
    client.settimeout(SECONDS)
    assert client.recv(1024) == b"held"


def test_a_slow_way_counts_what_it_has_held_back(proxy: Proxy, client: socket.socket) -> None:
    with proxy.slow(0.01):
        assert echoes(client, b"slowly")
    assert proxy.delayed == 2
    assert echoes(client, b"fast")
    assert proxy.delayed == 2


def test_the_end_of_one_side_is_the_end_of_the_other(proxy: Proxy, client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)
    assert client.recv(1024) == b""
    assert wait_until(lambda: proxy.cut() == 0, seconds=SECONDS)
