"""Each tool of the comparison does the work if there is no fault; its environment is installed for it."""

from collections.abc import Iterator
from random import Random

import pytest

from compare.case import Case
from compare.cases import FAULTS
from compare.peers import PEERS
from faults.site import Site

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(500)]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site("test-compare-peers") as site:
        yield site
        site.stack.keep_logs = True


@pytest.mark.parametrize("slug", PEERS)
def test_each_tool_has_a_row_for_each_message_without_a_fault(site: Site, slug: str) -> None:
    with Case(site, PEERS[slug], "none", random=Random(1), messages=500) as case:
        FAULTS["none"].inject(case)
        verdict = case.settle()
        assert (verdict.lost, verdict.doubled, verdict.strays, verdict.bad_kept) == (0, 0, 0, verdict.bad), verdict
