"""How the consumer group's offsets differ from the ledger, in words: pure. The ledger is right in every case."""

from collections.abc import Iterable, Mapping, Sequence

AHEAD = "ahead"
BEHIND = "behind"
NONE = "none"


def relation(*, start_offset: int, next_offset: int, group_offset: int | None) -> str | None:
    """Return `ahead`, `behind` or `none` when the group's offset is not the ledger's; None when all is as it should be.

    Before the first batch of a partition the group has no offset there, and that is right.
    """
    if group_offset is None:
        return NONE if next_offset > start_offset else None
    if group_offset == next_offset:
        return None
    return AHEAD if group_offset > next_offset else BEHIND


def notes(group: str, places: Mapping[str, Sequence[str]], members: Iterable[str]) -> list[str]:
    """Return what is to be said of a group: nothing when it follows the ledger and nobody else is in it.

    Args:
        group: its id.
        places: partitions by word, such as `{"ahead": ["orders 0"]}`.
        members: who consumes with it.
    """
    said = [sentence.format(group, ", ".join(places[key])) for key, sentence in _SENTENCES.items() if places.get(key)]
    others = ", ".join(members)
    if others:
        said.append(
            f"Another consumer is in the group {group} ({others}): while it is there, no offsets can be committed for "
            f"the trigger. The ledger does not depend on that. Stop it, or give the trigger a group of its own."
        )
    return said


_SENTENCES = {
    AHEAD: (
        "The group {} is ahead of the ledger on {}: its offset was set by somebody else, or the database was restored "
        "to an older state. Nothing is skipped: reading goes on from the ledger, and the next commit there puts the "
        "group right."
    ),
    BEHIND: (
        "The group {} is behind the ledger on {}: its commit comes after the batch, or failed, or the group was reset. "
        "Nothing is read again: the next commit there puts the group right."
    ),
    NONE: (
        "The group {} has no offset on {}: its commit comes after the batch, or failed, or the group was deleted or "
        "has expired. Nothing is read again: the next commit there puts the group right."
    ),
}
