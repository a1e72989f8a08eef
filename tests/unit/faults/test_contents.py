"""What the producer writes is known to the oracle, and means the same to the mapping of records."""

import orjson
import pytest

from faults.contents import ACCEPTED, PERIOD, aborted_value, kind, value


def test_every_kind_of_rejection_comes_once_a_period() -> None:
    kinds = [kind(sequence) for sequence in range(PERIOD)]
    assert sorted(set(kinds)) == [
        "accepted",
        "not-an-object",
        "not-json",
        "not-utf8",
        "null-value",
        "number-out-of-range",
    ]
    assert len(kinds) - kinds.count(ACCEPTED) == 5


def test_an_input_names_its_producer_and_number_and_no_two_are_alike() -> None:
    body = orjson.loads(value(7, 4) or b"")
    assert (body["producer"], body["seq"]) == (7, 4)
    written = [value(producer, sequence) for producer in (1, 2) for sequence in range(2 * PERIOD)]
    known = [content for content in written if content is not None]
    assert len(set(known)) == len(known)


def test_an_aborted_message_can_be_told_from_all_others() -> None:
    assert "aborted" in orjson.loads(aborted_value(1, 0))
    assert "seq" not in orjson.loads(aborted_value(1, 0))


@pytest.mark.parametrize(("sequence", "code"), [(3, "not-json"), (28, "not-json"), (18, "null-value"), (0, ACCEPTED)])
def test_the_kind_follows_from_the_number_alone(sequence: int, code: str) -> None:
    assert kind(sequence) == code
