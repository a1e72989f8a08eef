"""`workorders work-orders show`: one work order, from where it came to what became of each run."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import orjson
import typer

from workorders.cli import times
from workorders.cli.connections import Database, connect
from workorders.cli.output import AsJson, Column, hexdump, print_fields, print_json, print_table, safe
from workorders.core.admission import duplicates, rejections
from workorders.core.admission.duplicates import Repeat, Repeats
from workorders.core.exceptions import ConfigurationError
from workorders.core.history import work_orders
from workorders.core.history.work_orders import RunSummary, WorkOrder

RAW_BYTES_SHOWN: Final = 512

_RUN_COLUMNS: Final = (
    Column("run", number=True),
    Column("id"),
    Column("state"),
    Column("actor"),
    Column("reason"),
    Column("created"),
    Column("started"),
    Column("finished"),
    Column("error"),
)
_REPEAT_COLUMNS: Final = (Column("id"), Column("created"), Column("stream"), Column("position", number=True))


@dataclass(frozen=True, slots=True)
class _Found:
    """A work order with what belongs to it."""

    work_order: WorkOrder
    runs: Sequence[RunSummary]
    repeats: Repeats
    duplicate_of: UUID | None


def show(
    id_: Annotated[UUID, typer.Argument(metavar="ID", help="Id of the work order.", show_default=False)],
    as_json: AsJson = False,
    raw: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="New file for the raw value of a rejected message.",
        ),
    ] = None,
    database: Database = None,
) -> None:
    """Show a work order: its origin, input or rejection, and runs.

    If its event was duplicated, shows how often, when last, and from where. Each run has its times, its state, and the
    actor and reason if a person requested it. For its log and its output: `workorders runs show ID`.

    Control characters are printed as \\u...., so a message cannot change what you see. Raw bytes are shown as
    hexadecimal, the first 512 of them, and in JSON as base64.

    \b
    Examples:
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --raw message.bin
      workorders work-orders show 01997a3e-6f4c-7000-8a4f-5d8a1c2b3e4f --json | jq .body
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    with connect(database) as connection:
        found = _Found(
            work_orders.get_work_order(connection, id_),
            work_orders.runs_of(connection, id_),
            duplicates.summary(connection, id_),
            duplicates.original(connection, id_),
        )
    if raw is not None:
        _write_raw(found.work_order, raw)
    if as_json:
        print_json(_json(found))
    else:
        _print(found)


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


def _print(found: _Found) -> None:
    work_order, runs = found.work_order, found.runs
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
            ("repeated", _repeated(found.repeats)),
        ]
    )
    _print_part("request", work_order.request)
    _print_part("body", work_order.body)
    if work_order.reason:
        print(f"\nraw value: {_raw(work_order.raw)}")
    _print_repeats(work_order.id, found.repeats)
    if runs:
        print("\nruns:")
        print_table(_RUN_COLUMNS, [_run_cells(run) for run in runs])
        print(f"\nLog and output of the newest: workorders runs show {runs[-1].id}")


def _repeated(known: Repeats) -> str:
    if not known.total:
        return ""
    last = times.show(known.last_at)
    return f"once, at {last}" if known.total == 1 else f"{known.total:,} times, last at {last}"


def _print_repeats(id_: UUID, known: Repeats) -> None:
    _print_part("request of the last ignored repeat", known.last_request)
    if known.kept:
        print("\nrepeats, kept as rejected work orders:")
        print_table(_REPEAT_COLUMNS, [_repeat_cells(repeat) for repeat in known.newest])
    if known.kept > len(known.newest):
        print(f"All {known.kept:,}: workorders work-orders list --rejection {rejections.DUPLICATE} --text {id_}")


def _repeat_cells(repeat: Repeat) -> tuple[str, ...]:
    position = "" if repeat.position is None else str(repeat.position)
    return (str(repeat.id), times.show(repeat.created_at), repeat.stream or "", position)


def _print_part(name: str, json_text: str | None) -> None:
    if json_text is not None:
        print(f"\n{name}:\n{safe(json_text)}")


def _raw(raw: bytes | None) -> str:
    if raw is None:
        return "null"
    if not raw:
        return "empty (0 bytes)"
    more = "" if len(raw) <= RAW_BYTES_SHOWN else f"; the first {RAW_BYTES_SHOWN} are shown, and --raw FILE writes all"
    return f"{len(raw):,} bytes{more}\n{hexdump(raw, most=RAW_BYTES_SHOWN)}"


def _run_cells(run: RunSummary) -> tuple[str, ...]:
    error = ": ".join(part for part in (run.error_type, run.error) if part)
    return (
        str(run.attempt),
        str(run.id),
        run.state,
        run.actor or "",
        run.reason or "",
        times.show(run.created_at),
        times.show(run.started_at),
        times.show(run.finished_at),
        error,
    )


def _json(found: _Found) -> dict[str, Any]:
    work_order = found.work_order
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
        "duplicate_of": found.duplicate_of,
        "repeats": _repeats_json(found.repeats),
        "runs": found.runs,
    }


def _repeats_json(known: Repeats) -> dict[str, Any]:
    return {
        "total": known.total,
        "kept": known.kept,
        "ignored": known.ignored,
        "last_at": known.last_at,
        "last_request": _fragment(known.last_request),
        "newest": known.newest,
    }


def _rejection_json(work_order: WorkOrder) -> dict[str, Any] | None:
    if work_order.reason is None:
        return None
    raw = None if work_order.raw is None else b64encode(work_order.raw).decode()
    return {"reason": work_order.reason, "detail": work_order.detail, "raw_base64": raw}


def _fragment(json_text: str | None) -> orjson.Fragment | None:
    # As text, and so with every digit: a number of jsonb may be wider than any that Python reads from JSON.
    return None if json_text is None else orjson.Fragment(json_text)
