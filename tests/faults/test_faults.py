"""A fault of each process and server of a batch; `make test-all` has some more, and `make faults` injects them all."""

from collections.abc import Iterator

import pytest
from rich.console import Console

from faults.cases import FAULTS
from faults.catalogue import DEFAULT, Fault, Mode
from faults.results import Result, show, write
from faults.runner import run_fault
from faults.site import Site

pytestmark = [pytest.mark.integration, pytest.mark.faults, pytest.mark.timeout(900)]

SEED = 1
# A server saves the start of a JVM for each attempt; the fault of the JVM needs a submitted application.
IN_EACH_RUN = {
    "broker-killed": Mode(on_server=True),
    "jvm-killed": DEFAULT,
    "planner-without-answer": Mode(on_server=True),
    "postgres-killed": Mode(on_server=True),
    "worker-without-answer": Mode(on_server=True),
}


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    # A separate stack: its parts are killed, and its broker listens at a proxy.
    with Site("faults-short") as site:
        yield site
        site.stack.keep_logs = request.session.testsfailed > 0


@pytest.fixture(scope="module")
def results() -> Iterator[list[Result]]:
    found: list[Result] = []
    yield found
    show(Console(width=160), found)
    write(found, name="short", seed=SEED)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.slug, marks=[] if fault.slug in IN_EACH_RUN else pytest.mark.long)
        for fault in FAULTS.values()
        if fault.short
    ],
)
def test_nothing_is_lost_doubled_or_out_of_order_with_the_fault(
    site: Site, results: list[Result], fault: Fault
) -> None:
    result = run_fault(site, fault, SEED, IN_EACH_RUN.get(fault.slug, DEFAULT))
    results.append(result)
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.kept, str(result.verdict)
