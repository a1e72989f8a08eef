"""Gaps in sequences: which there are, and what an operator decides of one."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg.rows import class_row

from workorders.core import triggers
from workorders.core.admission import limits, sequence_store
from workorders.core.admission.sequence_order import Parked, SequenceState, in_line
from workorders.core.exceptions import WorkOrdersError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries
from workorders.core.selectors import canonical, hash128
from workorders.core.triggers import Trigger

_QUERIES = load_queries("workorders.core.admission", "sql/gaps.sql")

WAIT: Final = "wait"
SKIP: Final = "skip"
RELEASE: Final = "release"
DROP: Final = "drop"


class UnknownSequenceError(WorkOrdersError, LookupError):
    """The trigger has no sequence of that key."""


class GapRefusedError(WorkOrdersError):
    """A decision does not fit the sequence as it stands; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A sequence of which something is parked."""

    trigger: str
    key: UUID
    """What the sequence is known by in logs: no event's data."""
    name: str
    """The key as JSON, cut after 200 characters."""
    mark: int | None
    """Every number up to here is dealt with."""
    next_parked: int
    """The first number behind the gap."""
    parked: int
    parked_since: datetime | None
    wait_until: datetime | None
    """An operator waits until then."""
    alerted: bool


@dataclass(frozen=True, slots=True)
class Decider:
    """Who decides, and why; both are kept with the decision."""

    who: str
    why: str
    account: str | None = None
    """The account that it is decided from, whatever `who` says; None where nobody knows."""


def gaps(connection: Connection, trigger: str | None = None, *, limit: int = 50) -> list[Gap]:
    """Return sequences of which something is parked, the longest wait first.

    Raises:
        UnknownTriggerError: no trigger has that name.
    """
    trigger_id = None if trigger is None else triggers.find(connection, trigger).id
    with connection.cursor(row_factory=class_row(Gap)) as cursor:
        return cursor.execute(_QUERIES["gaps"], {"trigger_id": trigger_id, "limit": limit}).fetchall()


def find(connection: Connection, trigger: Trigger, text: str) -> UUID:
    """Return the key of a sequence that people name by its id, its value, or its value as JSON.

    Raises:
        UnknownSequenceError: there is none.
    """
    wanted = [hash128(canonical(text)).hex()]
    for read in (_as_id, _as_json):
        try:
            wanted.append(read(text))
        except ValueError:
            continue
    rows = connection.execute(_QUERIES["known"], {"trigger_id": trigger.id, "keys": wanted}).fetchall()
    if not rows:
        raise UnknownSequenceError(
            f"Trigger {trigger.name} has no sequence of that key; nothing was changed; see `workorders sequences list`."
        )
    return UUID(str(rows[0][0]))


def wait(connection: Connection, trigger: Trigger, key: UUID, decider: Decider, *, seconds: float) -> None:
    """Let the gap be for a time: there is no alert until then, and one afterwards if it is still open; commits.

    Raises:
        GapRefusedError: nothing is parked.
    """
    with connection.transaction():
        state = _lock_with_gap(connection, trigger, key)
        connection.execute(_QUERIES["wait"], {"trigger_id": trigger.id, "key": key, "seconds": seconds})
        _record(connection, trigger, key, decider, WAIT, state.mark, state.mark, 0)


def skip(connection: Connection, trigger: Trigger, key: UUID, decider: Decider) -> list[int]:
    """Give the numbers of the first gap up, and let in what is parked behind it up to the next gap; commits.

    Returns:
        The numbers that were let in. A number of the gap that comes all the same is rejected as late.

    Raises:
        GapRefusedError: nothing is parked.
    """
    return _let_in(connection, trigger, key, decider, SKIP, lambda state: bool(state.parked))


def release(connection: Connection, trigger: Trigger, key: UUID, decider: Decider) -> list[int]:
    """Give all gaps up, and let in everything that is parked, in the order of the numbers; commits.

    Raises:
        GapRefusedError: nothing is parked.
    """
    return _let_in(connection, trigger, key, decider, RELEASE, lambda _: False)


def drop(connection: Connection, trigger: Trigger, key: UUID, decider: Decider) -> None:
    """Forget a sequence that is finished; its key begins anew if it ever comes again; commits.

    Raises:
        GapRefusedError: something is parked in it.
    """
    with connection.transaction():
        state = _lock(connection, trigger, key)
        if state.parked:
            raise GapRefusedError(
                f"Sequence {key} of trigger {trigger.name} has {len(state.parked)} parked work orders and cannot be "
                f"dropped; nothing was changed; skip or release them first."
            )
        connection.execute(_QUERIES["drop"], {"trigger_id": trigger.id, "key": key})
        _record(connection, trigger, key, decider, DROP, state.mark, None, 0)


def _let_in(  # noqa: PLR0917 - what the two decisions share
    connection: Connection,
    trigger: Trigger,
    key: UUID,
    decider: Decider,
    kind: str,
    enough: Callable[[SequenceState], bool],
) -> list[int]:
    limited = None if trigger.rules is None else trigger.rules.limits
    with connection.transaction():
        if limited is not None:  # before the sequence, as everybody does
            limits.lock(connection, trigger.workflow_id, limited, own=0)
        state = _lock_with_gap(connection, trigger, key)
        let_in: list[Parked] = []
        while state.parked:
            before, state.mark = state.mark, min(state.parked) - 1
            some = list(in_line(key.bytes, state))
            _record(connection, trigger, key, decider, kind, before, some[0].number - 1, len(some))
            let_in += some
            if enough(state):
                break
        sequence_store.write_released(connection, trigger.id, let_in)
        sequence_store.write_places(connection, trigger, let_in)
        marks, count = {key.bytes: state.mark}, {key.bytes: len(let_in)}
        sequence_store.write_marks(connection, trigger.id, marks, {}, count)
        if limited is not None:
            limits.count(connection, trigger.workflow_id, len(let_in))
    return [part.number for part in let_in]


def _lock_with_gap(connection: Connection, trigger: Trigger, key: UUID) -> SequenceState:
    state = _lock(connection, trigger, key)
    if not state.parked:
        raise GapRefusedError(
            f"Sequence {key} of trigger {trigger.name} has no gap: nothing is parked; nothing was changed."
        )
    return state


def _lock(connection: Connection, trigger: Trigger, key: UUID) -> SequenceState:
    found = sequence_store.lock_marks(connection, trigger.id, [key.bytes])
    if key.bytes not in found:
        raise UnknownSequenceError(f"Trigger {trigger.name} has no sequence {key} any more; nothing was changed.")
    rows = connection.execute(_QUERIES["parked_of"], {"trigger_id": trigger.id, "key": key})
    return SequenceState(found[key.bytes][0], {number: id_.bytes for number, id_ in rows})


def _record(  # noqa: PLR0917 - the columns of one row
    connection: Connection,
    trigger: Trigger,
    key: UUID,
    decider: Decider,
    kind: str,
    from_mark: int | None,
    to_mark: int | None,
    released: int,
) -> None:
    connection.execute(
        _QUERIES["record"],
        {
            "who": decider.who,
            "why": decider.why,
            "account": decider.account,
            "trigger_id": trigger.id,
            "key": key,
            "kind": kind,
            "from_mark": from_mark,
            "to_mark": to_mark,
            "released": released,
        },
    )


def _as_id(text: str) -> str:
    return UUID(text).hex


def _as_json(text: str) -> str:
    return hash128(canonical(json.loads(text))).hex()
