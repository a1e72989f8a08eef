"""The comparison sees what plain consumers lose and double, and believes one that does neither."""

import sys
from collections.abc import Iterator
from random import Random

import pytest

from compare.case import PARTITIONS, Case
from compare.cases import FAULTS
from compare.oracle import Verdict
from compare.peer import Command, Peer
from faults.contents import ACCEPTED
from faults.site import Site

pytestmark = [pytest.mark.integration, pytest.mark.long]

_MESSAGES = 200


class PlainConsumer(Peer):
    """Commits the offset of each message before its row, or after it."""

    slug = name = settings = "plain-consumer"
    patience = 12.0

    def __init__(self, order: str) -> None:
        self._order = order

    def version(self) -> str:
        return "1"

    def parts(self) -> int:
        return 1

    def command(self, case: Case, number: int) -> Command:
        given = [case.servers, case.topic, self.group_id(case), case.table, self._order]
        return Command([sys.executable, "-m", "support.plain_consumer", *given], {"EFFECTS_URL": case.url()})

    def kept(self, case: Case) -> int:
        return int(case.site.admin(f"SELECT count(*) FROM {case.table} WHERE raw IS NOT NULL")[0][0])


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site("test-compare") as site:
        yield site


def verdict(site: Site, order: str, fault: str) -> Verdict:
    with Case(site, PlainConsumer(order), fault, random=Random(1), messages=_MESSAGES) as case:
        FAULTS[fault].inject(case)
        return case.settle()


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_plain_consumer_does_all_without_a_fault(site: Site, order: str) -> None:
    found = verdict(site, order, "none")
    assert found.is_clean, found
    assert found.messages > _MESSAGES / 2
    assert found.bad


@pytest.mark.parametrize(
    ("order", "fault", "lost", "doubled"),
    [
        ("before", "killed-before-commit", 1, 0),
        ("before", "killed-after-commit", 0, 0),
        ("after", "killed-before-commit", 0, 0),
        ("after", "killed-after-commit", 0, 1),
    ],
)
def test_a_consumer_that_is_killed_loses_or_doubles_one_message(
    site: Site, order: str, fault: str, lost: int, doubled: int
) -> None:
    found = verdict(site, order, fault)
    assert (found.lost, found.doubled) == (lost, doubled), found


@pytest.mark.long
def test_a_message_that_the_database_refuses_stops_a_plain_consumer(site: Site) -> None:
    assert verdict(site, "after", "poison").lost


@pytest.mark.long
def test_messages_that_are_replayed_double_the_rows_of_a_plain_consumer(site: Site) -> None:
    found = verdict(site, "after", "replay")
    assert not found.lost, found
    assert PARTITIONS <= found.doubled <= 100, found


@pytest.mark.long
def test_a_group_reset_to_0_doubles_each_row_of_a_plain_consumer_that_was_there_before(site: Site) -> None:
    with Case(site, PlainConsumer("after"), "group-reset", random=Random(1), messages=_MESSAGES) as case:
        FAULTS["group-reset"].inject(case)
        found = case.settle()
        # The producer writes on until it is stopped, and what it wrote was read before the reset. A second one follows.
        first, _ = case.sent[0].position
        before = sum(message.kind == ACCEPTED for message in case.sent if message.position[0] == first)
    assert not found.lost, found
    assert before < found.messages
    assert found.doubled == before, found


@pytest.mark.long
def test_a_tool_with_work_left_is_not_judged_yet(site: Site) -> None:
    looks = iter([True] * 20 + [False] * 100)

    class BusyConsumer(PlainConsumer):
        patience = 100.0

        def is_busy(self, case: Case) -> bool:
            return next(looks)

    with Case(site, BusyConsumer("after"), "busy", random=Random(1), messages=_MESSAGES) as case:
        FAULTS["none"].inject(case)
        assert case.settle().is_clean
    assert not next(looks)
