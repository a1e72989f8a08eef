"""Finds banned words and old names in text, also where a phrase continues on the next line."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from words.banned import BANNED, Entry

_GAP = r"(?:\s|#|--)+"
"""What may be between the words of a phrase: a line may end there, and the next may begin as a comment."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A banned word in a text."""

    line: int
    word: str
    """As it is written there."""
    use: str
    reason: str


def find(text: str, entries: Iterable[Entry] = BANNED) -> list[Finding]:
    """Return the banned words in a text, by line.

    A line allows a word that Kafka or Airflow gives its own meaning by a comment: `words: allow lane`.
    """
    lines = text.splitlines()
    return sorted(finding for entry in entries for finding in _found(text, lines, entry))


def _found(text: str, lines: list[str], entry: Entry) -> Iterator[Finding]:
    # An underscore ends a word, so that the parts of identifiers are words as well.
    pattern = rf"(?<![A-Za-z])(?:{entry.pattern.replace(' ', _GAP)})(?![A-Za-z])"
    for match in re.finditer(pattern, text, re.IGNORECASE):
        line = text.count("\n", 0, match.start()) + 1
        word = re.sub(_GAP, " ", match[0])
        if f"words: allow {word}".lower() not in lines[line - 1].lower():
            yield Finding(line, word, entry.use, entry.reason)
