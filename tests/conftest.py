"""The local stack for tests that need real parts, and the spans that a test exports."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from xdist.scheduler import LoadScopeScheduling

from local_stack.stack import LocalStack
from support.spans import send_spans_to

_TESTS = Path(__file__).resolve().parent
_WITH_AIRFLOW = ("tests/e2e/", "tests/stock/", "tests/scenarios/")
_SHARED = {
    "Airflow": _WITH_AIRFLOW,
    "a Spark Connect server": (
        "tests/integration/kafka/airflow/test_create_work_orders.py",
        "tests/integration/kafka/ingest/test_formats.py",
        "tests/integration/kafka/ingest/test_odd_messages.py",
        "tests/integration/kafka/spark/test_connect.py",
        "tests/integration/kafka/spark/test_driver.py",
    ),
    "a second broker": (
        "tests/integration/kafka/planning/test_unanswered.py",
        "tests/integration/outbox/relay/test_rights.py",
    ),
    "a scene of pages": ("tests/integration/pages/",),
}
"""What costs seconds to start, and the modules that use it: one process takes them all, and starts it once."""


def pytest_configure() -> None:
    """Let the programs that tests start find the modules that the tests find, also without make's variables."""
    ours = (_TESTS.parent / "include", _TESTS, _TESTS.parent / "tools")
    found = [*map(str, ours), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, found)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the whole stack with Airflow."""
    for item in items:
        if item.nodeid.startswith(_WITH_AIRFLOW):
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(1800))


class ModuleScheduling(LoadScopeScheduling):  # type: ignore[misc]  # its package has no types
    """Gives a worker of pytest-xdist whole modules, and one worker all modules that share what is slow to start.

    The tests of a module share what they have started, and two Airflows at once leave two cores nothing for the rest.
    """

    def _split_scope(self, nodeid: str) -> str:
        shared = (what for what, modules in _SHARED.items() if nodeid.startswith(modules))
        return next(shared, nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ModuleScheduling:
    """Schedule by modules, whatever `--dist` is."""
    gone = [module for modules in _SHARED.values() for module in modules if not (_TESTS.parent / module).exists()]
    assert not gone, f"tests/conftest.py names modules that do not exist: {gone}"
    return ModuleScheduling(config, log)


@pytest.fixture(scope="session")
def stack(request: pytest.FixtureRequest) -> Iterator[LocalStack]:
    """Postgres, with the tables of work orders, and Kafka."""
    with LocalStack() as running:
        yield running
        running.keep_logs = request.session.testsfailed > 0


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that this process exports."""
    exporter = InMemorySpanExporter()
    provider = send_spans_to(SimpleSpanProcessor(exporter), monkeypatch)
    yield exporter
    provider.shutdown()


@pytest.fixture(autouse=True)
def servers_at_work(request: pytest.FixtureRequest) -> None:
    """Start what the test before has left ended: that one has failed, and no other one shall fail for it."""
    if "stack" not in request.fixturenames:
        return
    stack: LocalStack = request.getfixturevalue("stack")
    for server in (stack.postgres, stack.kafka):
        if not server.process.running:
            warnings.warn(f"{server.process.name} had ended and is started again.", stacklevel=1)
            server.start()
