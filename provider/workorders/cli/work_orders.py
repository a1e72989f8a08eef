"""`workorders work-orders` and `runs`: find work orders and the attempts at them, count, show, and export them."""

import os
from collections.abc import Iterable, Mapping
from errno import EEXIST
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated, Any, Final
from uuid import UUID

import typer

from workorders import times
from workorders.cli import bulk
from workorders.cli.connections import connect
from workorders.cli.options import AsJson, Database, ListingById, argument, option, takes
from workorders.cli.output import note, print_json, print_state_counts, show_one, show_page
from workorders.core.admission import duplicates
from workorders.core.exceptions import ConfigurationError
from workorders.core.history import runs as run_history
from workorders.core.history import search_index, work_orders
from workorders.core.history.filters import Filter
from workorders.core.history.runs import RunRow, Step
from workorders.core.history.work_orders import WorkOrderSummary
from workorders.core.ids import time_of
from workorders.core.states import RunState, WorkOrderState
from workorders.kafka.ledger import origin
from workorders.outbox.admin import PublishedMessage, list_published
from workorders.visible_text import safe

app = typer.Typer(no_args_is_help=True)
runs = typer.Typer(no_args_is_help=True)

_RUNS: Final = "id work_order_id workflow attempt shown_state actor reason started_at finished_at error_type error"
_SHOWN_COLUMNS: Final[Mapping[type, str]] = {
    RunRow: "attempt generation id shown_state actor reason created_at started_at finished_at error_type error",
    Step: "name kind generation attempt finished_at result",
    PublishedMessage: "topic state attempt event_id hold_id",
}
"""Of the tables of one work order, and of one run."""


@app.command("list")
@takes(wanted=bulk.chosen, listing=ListingById)
def list_(*, wanted: Filter, listing: ListingById) -> None:
    """List work orders, newest first.

    A work order must match all filters. A stream is an ordered source within a trigger, and a position is a place in
    it. In Kafka they are a partition, called topic/partition@topic-id, and an offset.

    Examples:
      workorders work-orders list
      workorders work-orders list --state rejected --since 24h
      workorders work-orders list --rejection not-json --trigger orders
      workorders work-orders list --text "PAT-000123 admission" --since 7d
      workorders work-orders list --stream orders/0@ --from-position 100 --to-position 200
      workorders work-orders list --workflow admit --ordering-key PAT-000123
      workorders work-orders list --since 2026-03-01T14:00 --until 2026-03-01T15:00 --json
    """
    with connect(listing.database) as connection:
        found = work_orders.list_work_orders(connection, wanted, before=listing.before, limit=listing.limit)
        filled_until = None if wanted.text is None else search_index.indexed_up_to(connection)
    if filled_until is not None:
        until_when = times.show(time_of(filled_until))
        note(f"Texts are searched up to {until_when}; words of newer work orders follow in some minutes.")
    show_page(WorkOrderSummary, found, "work-orders list", listing, **wanted.to_json())


@app.command("count")
@takes(wanted=bulk.chosen)
def count_(*, wanted: Filter, as_json: AsJson = False, database: Database = None) -> None:
    """Count work orders by state.

    Reads every work order that matches. With many millions, limit the time.

    Examples:
      workorders work-orders count
      workorders work-orders count --trigger orders --since 24h
    """
    with connect(database) as connection:
        counts = work_orders.count_by_state(connection, wanted)
    if as_json:
        print_json({state.value: counts.get(state, 0) for state in WorkOrderState})
    else:
        print_state_counts(counts)


@app.command("show")
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

    Examples:
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --raw message.bin
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --json | jq .body
    """  # noqa: D301 - the backslash is printed
    with connect(database) as connection:
        work_order = work_orders.get_work_order(connection, id_)
        attempts = run_history.runs_of(connection, id_)
        repeats = duplicates.summary(connection, id_)
        batch = origin.find_batch(connection, work_order)
        published = list_published(connection, id_)
        finished = run_history.list_steps(connection, id_)
    if raw is not None:
        if work_order.raw is None:
            raise ConfigurationError(
                f"Work order {id_} has no raw value (only rejected ones have, unless the value was null), so no file "
                f"was written."
            )
        _write(raw, [work_order.raw])
    show_one(
        work_order,
        as_json=as_json,
        columns=_SHOWN_COLUMNS,
        batch=batch or (None if as_json else origin.missing_text(work_order)),
        repeats=repeats if repeats.total else None,
        runs=attempts,
        steps=finished,
        published=published,
    )
    if repeats.kept and not as_json:
        print(f"\nRepeats: workorders work-orders list --rejection {duplicates.DUPLICATE} --text {id_}")
    if attempts and not as_json:
        print(f"\nLog and output of the newest: workorders runs show {attempts[-1].id}")


app.command("rerun")(bulk.rerun)
app.command("cancel")(bulk.cancel_work_orders)


@app.command("export")
@takes(wanted=bulk.chosen)
def export_(
    file: Annotated[Path, argument("FILE", "New file, created when it is complete.")],
    *,
    wanted: Filter,
    database: Database = None,
) -> None:
    """Write work orders to a JSON Lines file.

    The oldest is the first. Work orders that are created meanwhile are not in it.

    Examples:
      workorders work-orders export failed.jsonl --state failed --since 7d
      workorders work-orders export ward.jsonl --text "ward W13" --trigger orders
    """
    with connect(database) as connection:
        size = _write(file, work_orders.export_parts(connection, wanted))
    print(f"{file} is complete and has {size:,} bytes.")


@runs.command("list")
@takes(listing=ListingById)
def list_runs(
    *,
    workflow: Annotated[str | None, option("NAME", "Only runs of this workflow.", "--workflow")] = None,
    state: Annotated[RunState | None, option("STATE", f"Only in this state: {', '.join(RunState)}.", "--state")] = None,
    work_order: Annotated[UUID | None, option("ID", "Only runs of this work order.", "--work-order")] = None,
    listing: ListingById,
) -> None:
    """List runs, newest first.

    A work order that waits for its first run has none.

    Examples:
      workorders runs list
      workorders runs list --workflow register_event --state failed
      workorders runs list --work-order 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
    """
    filters: dict[str, Any] = {"workflow": workflow, "state": state, "work_order": work_order}
    with connect(listing.database) as connection:
        found = run_history.list_runs(connection, **filters, before=listing.before, limit=listing.limit)
    show_page(RunRow, found, "runs list", listing, columns=_RUNS, **filters)


@runs.command("show")
def show_run(
    id_: Annotated[UUID, argument("ID", "Id of the run.")], as_json: AsJson = False, database: Database = None
) -> None:
    """Show one run with its output, its error, its log, and the steps that were finished when it ended.

    Example:
      workorders runs show 019d0c5e-3f2a-7c1b-8a4e-1f6f0c9d2b3a
    """
    with connect(database) as connection:
        run = run_history.get_run(connection, id_)
        finished = run_history.list_steps(connection, run.work_order_id, until=run)
    show_one(run, as_json=as_json, columns=_SHOWN_COLUMNS, steps=finished)
    if not as_json and (sentence := run_history.describe_end(run.state, finished)):
        print(f"\n{safe(sentence)}")


def _write(file: Path, parts: Iterable[bytes]) -> int:
    """Write a file that gets its name when it is complete, and that only its owner may read; return its bytes."""
    try:
        if file.exists():
            raise FileExistsError(EEXIST, os.strerror(EEXIST))
        with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.", suffix=".part", delete=False) as incomplete:
            try:
                incomplete.writelines(parts)
                incomplete.flush()
                os.fsync(incomplete.fileno())
                Path(incomplete.name).replace(file)
            except BaseException:
                Path(incomplete.name).unlink()
                raise
    except OSError as error:
        raise ConfigurationError(
            f"The file {file} could not be written ({error.strerror}), so it was not changed; name another one."
        ) from error
    return file.stat().st_size
