"""`workorders work-orders show`: one work order, from where it came to what became of each run."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import UUID

import orjson

from workorders import times
from workorders.cli.connections import connect
from workorders.cli.options import AsJson, Database, argument, option
from workorders.cli.output import Column, json_object, print_fields, print_json, print_table
from workorders.cli.steps_table import print_steps, steps_json
from workorders.core.admission import duplicates
from workorders.core.admission.duplicates import Repeat, Repeats
from workorders.core.exceptions import ConfigurationError
from workorders.core.history import work_orders
from workorders.core.history.work_orders import RunRow, WorkOrder
from workorders.core.steps.history import list_steps
from workorders.kafka.ledger import origin
from workorders.kafka.ledger.batches import Batch
from workorders.outbox.published import PublishedMessage, list_published
from workorders.visible_text import hexdump, safe

_RAW_BYTES_SHOWN: Final = 512

_RUN_COLUMNS: Sequence[Column[RunRow]] = (
    Column("run", lambda run: run.attempt, number=True),
    Column("generation", lambda run: run.generation, number=True),
    Column("id", lambda run: run.id),
    Column("state", lambda run: run.shown_state),
    Column("actor", lambda run: run.actor),
    Column("reason", lambda run: run.reason),
    Column("created", lambda run: run.created_at),
    Column("started", lambda run: run.started_at),
    Column("finished", lambda run: run.finished_at),
    Column("error", lambda run: ": ".join(part for part in (run.error_type, run.error) if part)),
)
_REPEAT_COLUMNS: Sequence[Column[Repeat]] = (
    Column("id", lambda repeat: repeat.id),
    Column("created", lambda repeat: repeat.created_at),
    Column("stream", lambda repeat: repeat.stream),
    Column("position", lambda repeat: repeat.position, number=True),
)
_PUBLISHED_COLUMNS: Sequence[Column[PublishedMessage]] = (
    Column("topic", lambda message: message.topic),
    Column("state", lambda message: message.state),
    Column("run", lambda message: message.attempt, number=True),
    Column("event id", lambda message: message.event_id),
    Column("hold", lambda message: message.hold_id, number=True),
)


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
    if as_json:
        known = {"duplicate_of": original, "repeats": _repeats_json(repeats), "runs": runs, "published": published}
        print_json(_json(work_order) | {"batch": batch and batch.id} | known | {"steps": steps_json(steps)})
    else:
        _print(work_order, batch, runs, repeats)
        print_steps(steps)
        if published:
            print("\npublished:")
            print_table(_PUBLISHED_COLUMNS, published)


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
        raise ConfigurationError(
            f"The raw value could not be written to {file}: {error.strerror}; name another file."
        ) from error


def _print(work_order: WorkOrder, batch: Batch | None, runs: Sequence[RunRow], repeats: Repeats) -> None:
    print_fields(
        [
            ("work order", work_order.id),
            ("state", work_order.state),
            ("trigger", f"{work_order.trigger or '?'} ({work_order.trigger_type or '?'})"),
            ("workflow", work_order.workflow or "?"),
            ("created", work_order.created_at),
            ("stream", work_order.stream),
            ("position", work_order.position),
            ("batch", batch.id if batch else origin.missing_text(work_order)),
            ("rejected", f"{work_order.reason}: {work_order.detail}" if work_order.reason else None),
            ("repeated", _repeated(repeats)),
        ]
    )
    _print_part("request", work_order.request)
    _print_part("body", work_order.body)
    if work_order.reason:
        print(f"\nraw value: {_raw(work_order.raw)}")
    _print_repeats(work_order.id, repeats)
    if runs:
        print("\nruns:")
        print_table(_RUN_COLUMNS, runs)
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
        print_table(_REPEAT_COLUMNS, known.newest)
    if known.kept > len(known.newest):
        print(f"All {known.kept:,}: workorders work-orders list --rejection {duplicates.DUPLICATE} --text {id_}")


def _print_part(name: str, json_text: str | None) -> None:
    if json_text is not None:
        print(f"\n{name}:\n{safe(json_text)}")


def _raw(raw: bytes | None) -> str:
    if raw is None:
        return "null"
    if not raw:
        return "empty (0 bytes)"
    more = (
        "" if len(raw) <= _RAW_BYTES_SHOWN else f"; the first {_RAW_BYTES_SHOWN} are shown, and --raw FILE writes all"
    )
    return f"{len(raw):,} bytes{more}\n{hexdump(raw, most=_RAW_BYTES_SHOWN)}"


def _json(work_order: WorkOrder) -> dict[str, Any]:
    shown = json_object(work_order) | {"request": _fragment(work_order.request), "body": _fragment(work_order.body)}
    reason, detail, raw = (shown.pop(name) for name in ("reason", "detail", "raw"))
    raw_base64 = None if raw is None else b64encode(raw).decode()
    rejection = None if reason is None else {"reason": reason, "detail": detail, "raw_base64": raw_base64}
    return shown | {"rejection": rejection}


def _repeats_json(known: Repeats) -> dict[str, Any]:
    return json_object(known) | {"total": known.total, "last_request": _fragment(known.last_request)}


def _fragment(json_text: str | None) -> orjson.Fragment | None:
    # As text, and so with every digit: a number of jsonb may be wider than any that Python reads from JSON.
    return None if json_text is None else orjson.Fragment(json_text)
