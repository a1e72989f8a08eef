"""Banned words are found in every form in which a text contains them, and nothing else is."""

import re

import pytest

from words.banned import BANNED, Entry
from words.check import find

ENTRIES = (Entry("lanes?", "ordering key", "old name"), Entry("in vain", "without success", "archaic"))


def words(text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.word) for finding in find(text, ENTRIES)]


def test_a_banned_word_is_found_with_its_line_and_the_word_to_use() -> None:
    (finding,) = find("First line.\nA lane waits.\n", ENTRIES)
    assert (finding.line, finding.word, finding.use, finding.reason) == (2, "lane", "ordering key", "old name")


def test_every_use_of_a_word_is_found_in_the_order_of_the_lines() -> None:
    assert words("Lanes\nin vain\nlane, LANE\n") == [(1, "Lanes"), (2, "in vain"), (3, "LANE"), (3, "lane")]


@pytest.mark.parametrize("name", ["lane_id", "_lane", "find_lane_of", "lane2", "no-lane", "`lane:`"])
def test_a_part_of_an_identifier_is_a_word(name: str) -> None:
    assert words(name) == [(1, "lane")]


def test_a_longer_word_that_contains_a_banned_one_is_allowed() -> None:
    assert words("A plane, a planet, in vainglory.") == []


@pytest.mark.parametrize("text", ["in\nvain", "# in\n# vain", "    -- in\n    -- vain", "in  vain"])
def test_a_phrase_is_found_where_a_line_ends_within_it(text: str) -> None:
    assert words(text) == [(1, "in vain")]


def test_a_line_can_allow_one_word_and_no_other() -> None:
    assert words("Lane: a lane  # words: allow lane") == []
    assert words("key: lane in vain  # words: allow lane") == [(1, "in vain")]
    assert words("key: lane\n# words: allow nothing") == [(1, "lane")]


def test_the_markers_of_kafka_are_allowed_and_the_old_name_of_the_checkpoint_topic_is_not() -> None:
    assert find("A transaction marker fills one offset of the topic.") == []
    assert [finding.use for finding in find("markers_topic: outbox")] == ["checkpoint topic, checkpoint_topic"]


@pytest.mark.parametrize("entry", BANNED, ids=lambda entry: entry.pattern)
def test_an_entry_gives_a_reason_and_another_word(entry: Entry) -> None:
    re.compile(entry.pattern)
    assert entry.reason
    assert find(entry.use, [entry]) == []
