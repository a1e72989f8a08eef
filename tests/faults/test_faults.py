"""The short part of the fault suite; `make faults` injects them all."""

from collections.abc import Iterator

import pytest
from rich.console import Console

from faults.cases import FAULTS
from faults.catalogue import Fault
from faults.results import Result, show, write
from faults.runner import run_fault
from faults.site import Site

pytestmark = [pytest.mark.integration, pytest.mark.faults, pytest.mark.timeout(900)]

SEED = 1


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


@pytest.mark.parametrize("fault", [fault for fault in FAULTS.values() if fault.short], ids=lambda fault: fault.slug)
def test_nothing_is_lost_doubled_or_out_of_order_with_the_fault(
    site: Site, results: list[Result], fault: Fault
) -> None:
    result = run_fault(site, fault, SEED)
    results.append(result)
    if result.skipped:
        pytest.skip(result.skipped)
    assert result.kept, str(result.verdict)
