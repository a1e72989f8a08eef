"""Airflow's own processes, killed, and started again as systemd or a container's restart policy does."""

from contextlib import suppress

import psutil

from local_stack.airflow import AirflowComponent
from local_stack.stack import LocalStack


def kill(component: AirflowComponent) -> None:
    """Kill a component by SIGKILL, and none of the processes that it has started.

    The scheduler's tasks live on, and a new scheduler finds them at work. Only the api-server takes its child along,
    which would keep its port.
    """
    component.kill(descendants=component.name == "api-server")
    assert not component.process.running


def kill_and_start(component: AirflowComponent) -> None:
    """Kill a component, start it again, and wait until it is well."""
    before = component.process.pid
    kill(component)
    component.start()
    assert component.process.pid != before


def start_ended(stack: LocalStack) -> None:
    """Start the components that have ended: they do so when their own database goes away."""
    for component in stack.airflow.components:
        if not component.process.running:
            component.start()


def listening(stack: LocalStack) -> set[str]:
    """Return the addresses at which the stack's processes listen."""
    addresses = set()
    for process in psutil.Process(stack.supervisor_pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it has just ended, as Postgres' helpers do all the time
            listens = [found for found in process.net_connections(kind="inet") if found.status == psutil.CONN_LISTEN]
            addresses |= {connection.laddr.ip.removeprefix("::ffff:") for connection in listens}
    return addresses
