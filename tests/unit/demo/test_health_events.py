from itertools import islice

from demo.health_events import FLAW_EVERY, FLAWS, health_events
from demo.summary import REASONS
from workorders.core.creation.json_validation import validate_body

MANY = 4000
ROOM = 10 * 1024 * 1024


def test_a_seed_gives_the_same_stream_again_and_another_seed_another_one() -> None:
    first = list(islice(health_events(1), MANY))
    assert list(islice(health_events(1), MANY)) == first
    assert list(islice(health_events(2), MANY)) != first


def test_every_flaw_comes_soon_and_none_is_more_than_a_small_part_of_the_stream() -> None:
    flaws = [event.flaw for event in islice(health_events(1), 2 * FLAW_EVERY * len(FLAWS)) if event.flaw]
    assert set(flaws) == FLAWS.keys()
    assert len(flaws) == 2 * len(FLAWS)


def test_every_flaw_is_rejected_for_the_reason_that_the_summary_expects() -> None:
    found = {}
    for flaw, value in FLAWS.items():
        rejection = validate_body(value, ROOM) if value is not None else None
        found[flaw] = rejection.code if rejection else "null-value" if value is None else "accepted"
    assert found == REASONS
