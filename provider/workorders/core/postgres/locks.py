"""Keys of advisory locks, all in one place, so that no two of them are equal.

The functions of the outbox take one more, 4564061, in their SQL.
"""

from enum import IntEnum


class AdvisoryLock(IntEnum):
    """What a transaction or a session may lock in addition to rows."""

    RETENTION = 4_564_005
    SEARCH_WORDS = 4_564_010
    """Shared by transactions that write the words of inputs, against retention, which erases both."""
    RANGE = 4_564_006
    """With a hash of a batch, an epoch, and a range: one copy of an attempt, against the others."""
    GROUP_COMMIT = 4_564_007
    """With the number of a trigger: one commit of its consumer group's offsets, against the others."""
    SCHEMA_UPGRADE = 4_564_018
