"""Fills the full text of work orders, in small steps behind the ingest, which pays nothing for it.

A word is a sequence of letters and digits; case does not count. Everything else separates words, so `0042` finds
`PAT-0042`, and a part of an address finds the address.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from workorders.core.exceptions import ConfigurationError
from workorders.core.ids import first_id
from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.locks import AdvisoryLock
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core.history", "sql/search_index.sql")

STEP: Final = 2_000
MAX_CHARACTERS: Final = 20_000
"""Characters of a body, and of a request, that are searched. A tsvector holds 1 MiB, and no input may exceed that."""

_NEW: Final = "words"
_LATE: Final = "words-again"
MARGIN: Final = timedelta(seconds=10)
"""Minimum wait before words are added, because an id is created before its transaction is visible."""
_MAX_WAIT: Final = timedelta(minutes=15)
"""Maximum wait for a transaction that writes."""
LATE_AFTER: Final = timedelta(hours=2)
"""Longer than the assumed difference of clocks, because an id has its creator's time."""
_LATE_STEP: Final = 20_000

MAX_WORD_CHARACTERS: Final = 64
"""Characters; a longer run (base64, for instance) counts as several words. Postgres refuses words from 2 KiB on."""

#: Escapes of JSON are outside of the group: `\n` separates two words and is no n.
_WORD: Final = re.compile(rf"\\(?:u[0-9a-fA-F]{{4}}|.)|([^\W_]{{1,{MAX_WORD_CHARACTERS}}})")
_PREFIX_MARK: Final = "*"


def index_new(connection: Connection, *, margin: timedelta = MARGIN) -> int:
    """Add the words of the next work orders, in its own transaction; return how many it read.

    Returns 0 if there is nothing left to do now, or if another process does it.
    """
    with connection.transaction():
        (settled,) = fetch_row(connection, _QUERIES["settled_until"], {"margin": margin, "max_wait": _MAX_WAIT})
        return _index(connection, _NEW, first_id(settled), STEP)


def index_late(connection: Connection, *, after: timedelta = LATE_AFTER) -> int:
    """Add work orders that appeared late, with ids before the last indexed one, as `index_new` does.

    They belong to a transaction that took very long, or to a machine whose clock was behind.
    """
    with connection.transaction():
        end = min(first_id(datetime.now(UTC) - after), indexed_up_to(connection))
        return _index(connection, _LATE, end, _LATE_STEP)


def _index(connection: Connection, name: str, end: UUID, limit: int) -> int:
    connection.execute(_QUERIES["add_progress"], {"name": name})
    row = connection.execute(_QUERIES["lock_progress"], {"name": name}).fetchone()
    if row is None:
        return 0
    asked = {"after": row[0], "end": end, "limit": limit}
    ids = [id_ for (id_,) in connection.execute(_QUERIES["next_ids"], asked)]
    if ids:
        missing = [id_ for (id_,) in connection.execute(_QUERIES["without_words"], {"ids": ids})]
        for start in range(0, len(missing), STEP):
            write_index(connection, missing[start : start + STEP])
        connection.execute(_QUERIES["move_progress"], {"name": name, "id": ids[-1]})
    return len(ids)


def indexed_up_to(connection: Connection) -> UUID:
    """Return the id of the last work order whose words were added in order; those after it are not found by text."""
    return _progress(connection, _NEW)


def complete_up_to(connection: Connection) -> UUID:
    """Return the id up to which nothing is missing; work orders after it may have come late."""
    return _progress(connection, _LATE)


def _progress(connection: Connection, name: str) -> UUID:
    row = connection.execute(_QUERIES["progress"], {"name": name}).fetchone()
    return row[0] if row else UUID(int=0)


def write_index(connection: Connection, ids: Sequence[UUID]) -> None:
    """Write the words of these work orders as their input is now; wait for the current step of retention.

    Until the transaction ends, retention waits, so that it sees the words of all that it erases.
    """
    connection.execute(_QUERIES["share_words"], {"key": AdvisoryLock.SEARCH_WORDS})
    write_index_of_locked(connection, ids)


def write_index_of_locked(connection: Connection, ids: Sequence[UUID]) -> None:
    """Write the words of work orders that the caller has locked, which retention passes."""
    found = connection.execute(_QUERIES["texts"], {"ids": list(ids), "max_characters": MAX_CHARACTERS}).fetchall()
    connection.execute(
        _QUERIES["write_words"],
        {"ids": [row[0] for row in found], "words": [to_tsvector_literal(*row[1:]) for row in found]},
    )


def lock_words(connection: Connection) -> None:
    """Wait for those that write words, and let no other begin until the transaction ends.

    Retention calls this before it locks the work orders that it erases.
    """
    connection.execute(_QUERIES["lock_words"], {"key": AdvisoryLock.SEARCH_WORDS})


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
