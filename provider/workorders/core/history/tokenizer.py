"""Splits the full text of work orders, and the text of a search, into words. Pure.

A word is a sequence of letters and digits; case does not count. Everything else separates words, so `0042` finds
`PAT-0042`, and a part of an address finds the address.
"""

import re
from typing import Final

from workorders.core.exceptions import ConfigurationError

MAX_WORD_CHARACTERS: Final = 64
"""Characters; a longer run (base64, for instance) counts as several words. Postgres refuses words from 2 KiB on."""

#: Escapes of JSON are outside of the group: `\n` separates two words and is no n.
_WORD: Final = re.compile(rf"\\(?:u[0-9a-fA-F]{{4}}|.)|([^\W_]{{1,{MAX_WORD_CHARACTERS}}})")
_PREFIX_MARK: Final = "*"


def tokenize(text: str) -> list[str]:
    """Return the words of a text in its order; JSON is taken as text."""
    return [word for word in _WORD.findall(text.casefold()) if word]


def to_tsvector_literal(*texts: str | None) -> str:
    """Return the words of some texts as the input of a Postgres tsvector without positions."""
    found = {word for text in texts if text for word in tokenize(text)}
    return "'" + "' '".join(found) + "'" if found else ""


def to_tsquery_literal(text: str) -> str:
    """Return what a person typed as the input of a Postgres tsquery: all words must be there, in any order.

    A term that ends in `*` finds the words that begin so.
    """
    lexemes: list[str] = []
    for term in text.split():
        found = [f"'{word}'" for word in tokenize(term)]
        if found and term.endswith(_PREFIX_MARK):
            found[-1] += ":*"
        lexemes += found
    if not lexemes:
        raise ConfigurationError(f"The text {text!r} holds no word; type letters or digits to search for.")
    return " & ".join(lexemes)
