"""`workorders work-orders`: find them, count them, look at one."""

import shlex
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import orjson
import typer

from workorders.cli import bulk, filters, times
from workorders.cli.connections import Database, connect
from workorders.cli.output import AsJson, Column, count, hexdump, note, print_fields, print_json, print_table, safe
from workorders.core import counts as stored
from workorders.core import history, search
from workorders.core.exceptions import ConfigurationError
from workorders.core.filters import Filter
from workorders.core.history import RunSummary, WorkOrder, WorkOrderSummary
from workorders.core.tables import WORK_ORDER_STATES

app = typer.Typer(no_args_is_help=True, help="List, count, show, rerun, cancel and export work orders.")

RAW_BYTES_SHOWN = 512

_COLUMNS = (
    Column("id"),
    Column("created"),
    Column("trigger"),
    Column("workflow"),
    Column("state"),
    Column("stream"),
    Column("position", number=True),
    Column("reason"),
)
_RUN_COLUMNS = (Column("run", number=True), Column("state"), Column("started"), Column("finished"), Column("error"))

app.command("rerun")(bulk.rerun)
app.command("cancel")(bulk.cancel)
app.command("export")(bulk.export)


@app.command("list")
@filters.as_options
def list_(
    wanted: Filter,
    *,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="How many to show.")] = 20,
    before: Annotated[
        UUID | None, typer.Option(metavar="ID", show_default=False, help="Go on behind this work order.")
    ] = None,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """List work orders, newest first.

    All filters given must hold. A stream is an ordered source within a trigger, and a position the place in it: for
    Kafka a partition, called topic/partition@topic-id, and the offset.

    \b
    Examples:
      workorders work-orders list
      workorders work-orders list --state rejected --since 24h
      workorders work-orders list --reason not-json --trigger orders
      workorders work-orders list --text "PAT-000123 admission" --since 7d
      workorders work-orders list --stream orders/0@ --from-position 100 --to-position 200
      workorders work-orders list --since 2026-03-01T14:00 --until 2026-03-01T15:00 --json
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = history.work_orders(connection, wanted, before=before, limit=limit)
        filled_until = None if wanted.text is None else search.filled_until(connection)
    if filled_until is not None:
        until_when = datetime.fromtimestamp((filled_until.int >> 80) / 1000, UTC)
        note(f"Texts are searched up to {times.show(until_when)}; words of newer work orders follow in some minutes.")
    if as_json:
        print_json([_summary_json(work_order) for work_order in found])
        return
    print_table(_COLUMNS, [_cells(work_order) for work_order in found])
    if len(found) == limit:
        print(f"\nNext page: {_next_page(wanted, found[-1].id, limit)}")


@app.command("count")
@filters.as_options
def count_(
    wanted: Filter,
    *,
    latest: Annotated[
        bool,
        typer.Option(
            "--latest", help="Print the numbers as they were last counted, at once; with a trigger or a workflow only."
        ),
    ] = False,
    as_json: AsJson = False,
    database: Database = None,
) -> None:
    """Count work orders by state.

    Every work order is read, or every one since a time: name one where there are many millions, or ask for the latest
    numbers, which are some minutes old.

    \b
    Examples:
      workorders work-orders count
      workorders work-orders count --trigger orders --since 24h
      workorders work-orders count --latest
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    if latest and wanted != Filter(trigger=wanted.trigger, workflow=wanted.workflow):
        raise typer.BadParameter("it goes with --trigger and --workflow only.", param_hint="--latest")
    with connect(database) as connection:
        if latest:
            kept = stored.latest(connection, trigger=wanted.trigger, workflow=wanted.workflow)
            counts = kept.by_state
            note(f"Counted at {times.show(kept.counted_at)}." if kept.counted_at else "They were not counted yet.")
        else:
            counts = history.count_by_state(connection, wanted)
    if as_json:
        print_json({state: counts.get(state, 0) for state in WORK_ORDER_STATES})
    else:
        rows = [(name, count(counts[name])) for name in WORK_ORDER_STATES if name in counts]
        print_table(
            (Column("state"), Column("work orders", number=True)), [*rows, ("total", count(sum(counts.values())))]
        )


@app.command()
def show(
    id_: Annotated[UUID, typer.Argument(metavar="ID", help="Id of the work order.", show_default=False)],
    as_json: AsJson = False,
    raw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Also write the raw value of a rejected message to this new file, byte for byte.",
        ),
    ] = None,
    database: Database = None,
) -> None:
    """Show everything about a work order: where it came from, its input, or why it was rejected.

    What a terminal would obey is printed as \\u...., so a message cannot change what you see. Raw bytes are shown as
    hexadecimal, the first 512 of them, and in JSON as base64.

    \b
    Examples:
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --raw message.bin
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --json | jq .body
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        work_order = history.work_order(connection, id_)
        runs = history.runs(connection, id_)
    if raw is not None:
        _write_raw(work_order, raw)
    if as_json:
        print_json(_json(work_order, runs))
    else:
        _print(work_order, runs)


def _next_page(wanted: Filter, last: UUID, limit: int) -> str:
    options: Sequence[tuple[str, object]] = (
        ("--trigger", wanted.trigger),
        ("--workflow", wanted.workflow),
        ("--state", wanted.state),
        ("--reason", wanted.reason),
        # Not as it was typed: "2h" would mean another time on the next page.
        ("--since", wanted.since and wanted.since.isoformat()),
        ("--until", wanted.until and wanted.until.isoformat()),
        ("--stream", wanted.stream),
        ("--from-position", wanted.from_position),
        ("--to-position", wanted.to_position),
        ("--text", wanted.text),
        ("--limit", limit),
        ("--before", last),
    )
    words = [word for name, value in options if value is not None for word in (name, str(value))]
    return shlex.join(["workorders", "work-orders", "list", *words])


def _cells(work_order: WorkOrderSummary) -> tuple[str, ...]:
    return (
        str(work_order.id),
        times.show(work_order.created_at),
        work_order.trigger or "?",
        work_order.workflow or "?",
        work_order.state,
        work_order.stream or "",
        "" if work_order.position is None else str(work_order.position),
        work_order.reason or "",
    )


def _write_raw(work_order: WorkOrder, file: Path) -> None:
    if work_order.raw is None:
        raise ConfigurationError(
            f"Work order {work_order.id} has no raw value (only rejected ones have, unless the value was null); "
            f"{file} was not written."
        )
    try:
        with file.open("xb") as stream:
            stream.write(work_order.raw)
    except OSError as error:
        raise ConfigurationError(f"The raw value could not be written to {file}: {error.strerror}.") from error


def _print(work_order: WorkOrder, runs: Sequence[RunSummary]) -> None:
    print_fields(
        [
            ("work order", str(work_order.id)),
            ("state", work_order.state),
            ("trigger", f"{work_order.trigger or '?'} ({work_order.trigger_type or '?'})"),
            ("workflow", work_order.workflow or "?"),
            ("created", times.show(work_order.created_at)),
            ("stream", work_order.stream or ""),
            ("position", "" if work_order.position is None else str(work_order.position)),
            ("rejected", f"{work_order.reason}: {work_order.detail}" if work_order.reason else ""),
        ]
    )
    _print_part("request", work_order.request)
    _print_part("body", work_order.body)
    if work_order.reason:
        print(f"\nraw value: {_raw(work_order.raw)}")
    if runs:
        print("\nruns:")
        print_table(_RUN_COLUMNS, [_run_cells(run) for run in runs])


def _print_part(name: str, json_text: str | None) -> None:
    if json_text is not None:
        print(f"\n{name}:\n{safe(json_text)}")


def _raw(raw: bytes | None) -> str:
    if raw is None:
        return "null"
    if not raw:
        return "empty (0 bytes)"
    more = (
        "" if len(raw) <= RAW_BYTES_SHOWN else f", of which the first {RAW_BYTES_SHOWN} are shown; --raw FILE has all"
    )
    return f"{len(raw):,} bytes{more}\n{hexdump(raw, most=RAW_BYTES_SHOWN)}"


def _run_cells(run: RunSummary) -> tuple[str, ...]:
    error = ": ".join(part for part in (run.error_type, run.error) if part)
    return (str(run.attempt), run.state, times.show(run.started_at), times.show(run.finished_at), error)


def _summary_json(work_order: WorkOrderSummary) -> dict[str, Any]:
    return {
        "id": work_order.id,
        "trigger": work_order.trigger,
        "workflow": work_order.workflow,
        "state": work_order.state,
        "created_at": work_order.created_at,
        "stream": work_order.stream,
        "position": work_order.position,
        "reason": work_order.reason,
    }


def _json(work_order: WorkOrder, runs: Sequence[RunSummary]) -> dict[str, Any]:
    return {
        "id": work_order.id,
        "trigger": work_order.trigger,
        "trigger_type": work_order.trigger_type,
        "workflow": work_order.workflow,
        "state": work_order.state,
        "created_at": work_order.created_at,
        "stream": work_order.stream,
        "position": work_order.position,
        "request": _fragment(work_order.request),
        "body": _fragment(work_order.body),
        "rejection": _rejection_json(work_order),
        "runs": runs,
    }


def _rejection_json(work_order: WorkOrder) -> dict[str, Any] | None:
    if work_order.reason is None:
        return None
    raw = None if work_order.raw is None else b64encode(work_order.raw).decode()
    return {"reason": work_order.reason, "detail": work_order.detail, "raw_base64": raw}


def _fragment(json_text: str | None) -> orjson.Fragment | None:
    # As text, and so with every digit: a number of jsonb may be wider than any that Python reads from JSON.
    return None if json_text is None else orjson.Fragment(json_text)
