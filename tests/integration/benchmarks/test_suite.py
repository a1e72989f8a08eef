"""Every benchmark runs, in sizes that measure nothing."""

from collections.abc import Iterator

import pytest

from benchmarks.sizes import QUICK
from benchmarks.suite import BENCHMARKS, Bench
from local_stack.stack import LocalStack

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    # A stack of its own: the benchmarks empty the tables.
    with LocalStack(name="benchmarks") as stack:
        yield Bench(stack, QUICK, print)


# Of those that are left out, memory does what spark does, and the others start an Airflow of their own.
@pytest.mark.parametrize(
    "name",
    [
        "copy",
        "create_for",
        "dedup",
        "spark",
        "virtual",
        "formats",
        "million",
        "airflow_consume",
        "small_batch",
        "server_memory",
        "layout",
        "outbox",
        "claim",
        "idle",
        "execute",
        "search",
        "cli_start",
    ],
)
def test_a_benchmark_measures_something(bench: Bench, name: str) -> None:
    figures = BENCHMARKS[name](bench)
    assert figures
    assert not bench.failed
    measured = [figure for figure in figures if figure.unit.endswith("/s") or figure.unit == "s"]
    assert all(figure.value > 0 for figure in measured)
    assert all(figure.ratio is None or figure.ratio > 0 for figure in figures)
