"""A change that a person makes through a page, for the audit log of Airflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Event = Literal[
    "workorders_rerun",
    "workorders_cancel",
    "workorders_export",
    "workorders_stop_job",
    "workorders_resolve",
    "workorders_release_hold",
    "workorders_purge_hold",
    "workorders_release_shard",
]
"""What a person did; the audit log of Airflow has the same names, of at most 60 characters."""


Details = Mapping[str, str | int | Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a person is about to change.

    It is recorded before the change is committed: an entry without a change is possible, and no change without one.
    """

    event: Event
    user: str
    dag_ids: Sequence[str]
    """The Dags whose rights allowed it; the log has an entry for each."""
    details: Details
    """Numbers, ids, and the reason. Words that were searched for stay out, because no retention erases this log."""


def record_nothing(change: Change) -> None:
    """Record no change, where there is no Airflow."""
