"""`workorders work-orders show`: one work order, from where it came to what became of each run."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final
from uuid import UUID

from workorders.cli.connections import connect
from workorders.cli.options import AsJson, Database, argument, option
from workorders.cli.output import JsonText, Raw, show_one
from workorders.cli.runs import SHOWN_COLUMNS, with_results
from workorders.core.admission import duplicates
from workorders.core.exceptions import ConfigurationError
from workorders.core.history import work_orders
from workorders.core.history.work_orders import WorkOrder
from workorders.core.steps.history import list_steps
from workorders.kafka.ledger import origin
from workorders.outbox.published import PublishedMessage, list_published

_PUBLISHED_COLUMNS: Final = "topic state attempt event_id hold_id"


def show(
    id_: Annotated[UUID, argument("ID", "Id of the work order.")],
    as_json: AsJson = False,
    raw: Annotated[Path | None, option("FILE", "New file for the raw value of a rejected message.", "--raw")] = None,
    database: Database = None,
) -> None:
    """Show a work order: its origin, input or rejection, runs, finished steps, and published messages.

    If its event was duplicated, shows how often, when last, and from where. Each run has its times, its state, and the
    actor and reason if a person requested it. For its log and its output: `workorders runs show ID`. Published
    messages are waiting, held, or sent, which includes those that were purged or replaced; the first 50 are shown.

    Control characters are printed as \\u...., so a message cannot change what you see. Raw bytes are shown as
    hexadecimal, the first 512 of them, and in JSON as base64.

    \b
    Examples:
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --raw message.bin
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --json | jq .body
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        work_order = work_orders.get_work_order(connection, id_)
        runs = work_orders.runs_of(connection, id_)
        repeats = duplicates.summary(connection, id_)
        original = duplicates.original(connection, id_)
        batch = origin.find_batch(connection, work_order)
        published = list_published(connection, id_)
        steps = list_steps(connection, id_)
    if raw is not None:
        _write_raw(work_order, raw)
    show_one(
        _shown(work_order),
        as_json=as_json,
        columns={**SHOWN_COLUMNS, PublishedMessage: _PUBLISHED_COLUMNS},
        batch=batch.id if batch else None if as_json else origin.missing_text(work_order),
        duplicate_of=original,
        repeats=replace(repeats, last_request=_json_text(repeats.last_request)) if repeats.total else None,
        runs=runs,
        steps=with_results(steps),
        published=published,
    )
    if repeats.kept > len(repeats.newest) and not as_json:
        print(f"\nAll repeats: workorders work-orders list --rejection {duplicates.DUPLICATE} --text {id_}")
    if runs and not as_json:
        print(f"\nLog and output of the newest: workorders runs show {runs[-1].id}")


def _write_raw(work_order: WorkOrder, file: Path) -> None:
    if work_order.raw is None:
        raise ConfigurationError(
            f"Work order {work_order.id} has no raw value (only rejected ones have, unless the value was null); "
            f"{file} was not written."
        )
    try:
        # Only its owner may read it, as an export.
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(work_order.raw)
    except OSError as error:
        raise ConfigurationError(
            f"The raw value could not be written to {file}: {error.strerror}; name another file."
        ) from error


def _shown(work_order: WorkOrder) -> WorkOrder:
    """Return a work order whose parts are printed as what they are."""
    raw = None if work_order.raw is None else Raw(work_order.raw)
    return replace(work_order, request=_json_text(work_order.request), body=_json_text(work_order.body), raw=raw)


def _json_text(text: str | None) -> JsonText | None:
    return None if text is None else JsonText(text)
