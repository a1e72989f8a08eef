from collections import Counter
from dataclasses import replace

import pytest

from demo.comparison import Comparison
from demo.database import WorkOrder
from demo.producer import Sent
from demo.replay import Replay
from demo.summary import Found, Offsets, figures, table

ACCEPTED = WorkOrder(0, "pending", 0.0, {}, {}, None, None)
REJECTED = WorkOrder(1, "rejected", 0.0, {}, None, "not-an-object", b"[]")
ENDS = {0: 3, 1: 1}
RIGHT = Found(
    sent=Sent(committed=2, in_transaction=1, aborted=1, flaws=Counter({"array": 1})),
    visible=2,
    stored=3,
    orders=[ACCEPTED, REJECTED],
    comparison=Comparison([], [], [], [], [1.0, 2.0]),
    offsets=Offsets(last_stable=ENDS, ledger=ENDS, group=ENDS),
    replay=Replay("batch_1", "", 3.0, 0, False, []),
)


def off(found: Found) -> set[str]:
    return {figure.name for figure in figures(found) if figure.off}


def test_nothing_is_off_when_all_is_right() -> None:
    assert off(RIGHT) == set()


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        (replace(RIGHT, visible=1, stored=2), {"produced"}),
        (replace(RIGHT, stored=2), {"aborted"}),
        (replace(RIGHT, orders=[REJECTED]), {"created"}),
        (replace(RIGHT, orders=[ACCEPTED, ACCEPTED]), {"rejected", "  not-an-object"}),
        (replace(RIGHT, orders=[ACCEPTED, replace(REJECTED, reason="x")]), {"  not-an-object", "  x"}),
        (replace(RIGHT, comparison=Comparison([(0, 1)], [], [], [], [])), {"missing"}),
        (replace(RIGHT, comparison=Comparison([], [(0, 1)], [], [], [])), {"duplicates"}),
        (replace(RIGHT, comparison=Comparison([], [], [(0, 1)], [], [])), {"without a message"}),
        (replace(RIGHT, comparison=Comparison([], [], [], [(0, 1)], [])), {"altered"}),
        (replace(RIGHT, offsets=Offsets(ENDS, {0: 3}, ENDS)), {"lag of the ledger"}),
        (replace(RIGHT, offsets=Offsets(ENDS, ENDS, {0: 2, 1: 2})), {"lag of the group"}),
        (replace(RIGHT, replay=replace(RIGHT.replay, added=-1)), {"replay added"}),
        (replace(RIGHT, replay=replace(RIGHT.replay, changed=True)), {"replay changed"}),
    ],
)
def test_a_wrong_figure_is_off_and_no_other(wrong: Found, names: set[str]) -> None:
    assert off(wrong) == names


def test_the_table_marks_what_is_off_and_names_the_first_places() -> None:
    places = [(0, 1), (0, 2), (3, 4), (3, 5)]
    wrong = replace(RIGHT, comparison=Comparison(places, [], [], [], []))
    (line,) = [line for line in table(figures(wrong)).splitlines() if "OFF" in line]
    assert line.split("OFF")[0].split() == ["missing", "4", "0"]
    assert line.endswith("partition 0 offset 1, partition 0 offset 2, partition 3 offset 4 ...")
