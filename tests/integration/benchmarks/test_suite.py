"""Every benchmark runs, in sizes that measure nothing."""

from collections.abc import Iterator

import pytest

from benchmarks import busy, dbos_peer, pages, steady
from benchmarks.sizes import QUICK
from benchmarks.suite import BENCHMARKS, Bench
from local_stack.stack import LocalStack
from support.pages import running, served, site
from workorders.core.postgres.connection import connect

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    # A separate stack: the benchmarks empty the tables.
    with LocalStack(name="benchmarks") as stack:
        yield Bench(stack, QUICK, print)


_NAMES = "execute copy create_for dedup outbox claim steps search cli_start server_memory virtual formats million"


# Of those that are left out, `spark` is a part of `virtual`, and the others start another Airflow.
@pytest.mark.parametrize("name", _NAMES.split())
def test_a_benchmark_measures_something(bench: Bench, name: str) -> None:
    figures = BENCHMARKS[name](bench)
    assert figures
    assert not bench.failed
    measured = [figure for figure in figures if figure.unit.endswith("/s") or figure.unit == "s"]
    assert all(figure.value > 0 for figure in measured)
    assert all(figure.ratio is None or figure.ratio > 0 for figure in figures)


def test_the_peer_of_a_steady_trigger_is_measured(bench: Bench) -> None:
    """The triggers themselves need an Airflow."""
    steady.create_table(bench.stack)
    dbos_peer.create_database(bench.stack)
    with steady.busy_machine(bench.stack, 1):
        waits = dbos_peer.waits(steady.Messages(bench.stack), "steady-peer", per_second=5, seconds=2)
    assert len(waits) == 10
    assert waits[0].produced == 0
    assert all(wait.seconds > 0 for wait in waits)


def test_every_kind_of_page_of_a_busy_installation_is_looked_at(bench: Bench) -> None:
    """The benchmark asks Airflow's API server, which would have to start first."""
    extent = busy.Extent(QUICK.pages_rows, QUICK.pages_outbox, QUICK.pages_batches, QUICK.pages_entries)
    url = bench.stack.database_url
    server = served(site(url, bench.stack.kafka_settings))
    with connect(url, autocommit=True) as connection, running(server) as address:
        installation = busy.fill(bench.stack, connection, extent, print)
        with pages.Visitor(address, connection, extent.rows, installation) as visitor:
            looked_at = {kind: request for kind, request in visitor.kinds.items() if not kind.startswith("/")}
            for request in looked_at.values():
                assert visitor.milliseconds(request()) > 0
        assert pages.seconds_to_read_metrics(url, 1)
