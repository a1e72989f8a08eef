"""Describes how a consumer group's offsets differ from the ledger, which is always right: pure functions."""

from collections.abc import Iterable, Mapping, Sequence

AHEAD = "ahead"
BEHIND = "behind"
NONE = "none"


def relation(*, start_offset: int, next_offset: int, group_offset: int | None) -> str | None:
    """Return `ahead`, `behind` or `none` if the group's offset differs from the ledger's; None otherwise.

    Before the first batch of a partition the group has no offset there, which is not a difference.
    """
    if group_offset is None:
        return NONE if next_offset > start_offset else None
    if group_offset == next_offset:
        return None
    return AHEAD if group_offset > next_offset else BEHIND


def notes(group: str, places: Mapping[str, Sequence[str]], members: Iterable[str]) -> list[str]:
    """Return notes on a group; none if it follows the ledger and has no members.

    `places` are partitions by relation, such as `{"ahead": ["orders 0"]}`.
    """
    found = [sentence.format(group, ", ".join(places[key])) for key, sentence in _NOTES.items() if places.get(key)]
    others = ", ".join(members)
    if others:
        found.append(
            f"The group {group} has another consumer ({others}), so no offsets can be committed for the trigger. The "
            f"ledger does not depend on them. Stop that consumer, or give the trigger a group of its own."
        )
    return found


_NOTES = {
    AHEAD: (
        "The group {} is ahead of the ledger on {}: another program set its offset, or the database was restored to an "
        "older state. Nothing is skipped, because reading continues at the ledger. The next commit corrects the group."
    ),
    BEHIND: (
        "The group {} is behind the ledger on {}: its commit comes after the batch, or failed, or the group was reset. "
        "Nothing is read again. The next commit corrects the group."
    ),
    NONE: (
        "The group {} has no offset on {}: its commit comes after the batch, or failed, or the group was deleted or "
        "has expired. Nothing is read again. The next commit corrects the group."
    ),
}
