"""`workorders start`, `doctor`, and `remove`: the Dags of a trigger begin, what they need, and their end."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from workorders import dag_ids
from workorders.cli.connections import require_airflow
from workorders.cli.options import AsJson, TriggerName, Yes, argument, confirm, option, parse_seconds
from workorders.cli.output import note, print_json, show
from workorders.core.exceptions import ConfigurationError, WorkOrdersError
from workorders.visible_text import safe

if TYPE_CHECKING:
    from workorders.kafka.airflow.start_checks import Check, Source

T = TypeVar("T")

_POLL_SECONDS: Final = 1.0

_WAIT_SECONDS: Final = 360.0
"""Airflow looks for new files every 300 s, by default."""
_HEARTBEAT_SECONDS: Final = 60.0
"""Until a component that was just started, or whose machine is busy, has a heartbeat."""

Wait = Annotated[
    float | None,
    option("DURATION", "Maximum time until the Dag is parsed and polls; 6m.", "--wait", parser=parse_seconds),
]


def doctor(
    trigger: Annotated[str | None, argument("TRIGGER", "Only the installation and this trigger.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check all that a message needs, and print what helps.

    Run it where Airflow's components run, with their environment. It checks Airflow's components, the database with its
    tables and rights, the Dags of each trigger, its workflow, Kafka with its rights, and Spark. It changes nothing, and
    exits with 1 if something is wrong.

    Examples:
      workorders doctor
      workorders doctor orders
      workorders doctor --json | jq '.[] | select(.ok | not)'
    """
    require_airflow()
    from workorders.airflow import metadata  # noqa: PLC0415 - Airflow takes seconds
    from workorders.kafka.airflow import start_checks  # noqa: PLC0415

    dags = metadata.our_dags()
    found = [*start_checks.of_installation(), *([] if trigger else start_checks.of_dags(dags))]
    for name in [trigger] if trigger else start_checks.list_sources(dags):
        found += start_checks.of_source(name, start_checks.find_source(name, dags))
    show(found, as_json=as_json, shown=_print)
    if not all(check.ok for check in found):
        raise typer.Exit(1)


def start(trigger: TriggerName, wait: Wait = None, as_json: AsJson = False) -> None:
    """Check all that a trigger needs, unpause it, and wait until it has polled.

    The checks are those of `workorders doctor TRIGGER`. If nothing is wrong, it unpauses the listener or the cron Dag,
    and returns when the starting offsets are recorded: all messages that are sent then become work orders, also with
    `starting_offsets: latest`. Exits with 1, and unpauses nothing, if something is wrong.

    Examples:
      workorders start orders
      workorders start orders --wait 5m --json
    """
    require_airflow()
    from workorders.airflow import metadata  # noqa: PLC0415 - Airflow takes seconds
    from workorders.kafka.airflow import start_checks  # noqa: PLC0415

    deadline = time.monotonic() + (_WAIT_SECONDS if wait is None else wait)
    heartbeats = min(deadline, time.monotonic() + _HEARTBEAT_SECONDS)
    _until(lambda: not metadata.ended_components(), heartbeats, "Waiting for a heartbeat of Airflow's components.")
    waiting = f"Waiting for Airflow to parse a Dag of {trigger}."
    source = _until(lambda: start_checks.find_source(trigger, metadata.our_dags()), deadline, waiting)
    found = [*start_checks.of_installation(), *start_checks.of_source(trigger, source)]
    if not as_json:
        _print(found)
    is_right = source is not None and all(check.ok for check in found)
    positions: Sequence[str] = ()
    if source is not None and is_right and source.is_switch:
        metadata.unpause(source.dag.dag_id)
        positions = _wait_for_offsets(source, deadline)
    if as_json:
        print_json({"trigger": trigger, "started": is_right, "positions": positions, "checks": found})
    elif is_right:
        print(safe("\n".join([f"{trigger} is started.", *positions])))
    if not is_right:
        note(f"{trigger} was not started.")
        raise typer.Exit(1)


def remove(
    trigger: Annotated[str | None, argument("TRIGGER", "Only of this trigger.")] = None, yes: Yes = False
) -> None:
    """Delete the Dags of a trigger whose file is gone, or all Dags of this package that no file makes any more.

    Deletes Dags and Dag runs from Airflow. Work orders, the ledger, and the consumer group's offsets stay. Airflow
    notices within about two minutes that a file or a bundle is gone.

    Examples:
      workorders remove orders
      workorders remove --yes
    """
    require_airflow()
    from workorders.airflow import metadata  # noqa: PLC0415 - Airflow takes seconds

    # The Dag of its workflow may serve other triggers.
    wanted = None if trigger is None else dag_ids.of_trigger(trigger)

    def chosen(*, gone: bool) -> list[str]:
        return sorted(dag_id for dag_id in metadata.our_dags(gone=gone) if wanted is None or dag_id in wanted)

    left, gone = chosen(gone=False), chosen(gone=True)
    if left and not gone:
        raise ConfigurationError(
            f"Files still make the Dags {', '.join(left)}, so none was deleted. Delete the trigger's file, or remove "
            f"the Dag bundle from Airflow's configuration, and run this again in two minutes."
        )
    if not gone:
        print("There is no Dag to delete.")
        return
    print(safe("\n".join(gone)))
    confirm("These Dags and their Dag runs are deleted.", yes=yes)
    for dag_id in gone:
        metadata.delete(dag_id)
    note(f"{len(gone)} Dags were deleted.")


def _wait_for_offsets(source: "Source", deadline: float) -> Sequence[str]:
    """Return where a Kafka trigger reads on, once its listener has recorded that; nothing for other triggers."""
    from workorders.airflow.connections import database_url  # noqa: PLC0415 - Airflow takes seconds
    from workorders.core.postgres.connection import connect  # noqa: PLC0415
    from workorders.kafka.ledger.positions import positions, subscriptions  # noqa: PLC0415

    definition = source.definition
    if definition is None:
        return ()
    with connect(database_url(definition.database_connection), autocommit=True) as connection:
        polled = _until(
            lambda: subscriptions(connection, source.trigger).issuperset(definition.topics),
            deadline,
            f"Waiting for the first poll of {source.dag.dag_id}.",
        )
        if not polled:
            raise WorkOrdersError(
                f"{source.dag.dag_id} was unpaused, and has recorded no starting offsets yet. Look into the log of its "
                f"task wait_for_messages, and run this command again with a longer --wait."
            )
        ledger = positions(connection, source.trigger).values()
    return [
        f"{position.partition} continues at offset {position.next_offset}."
        for position in sorted(ledger, key=lambda position: position.partition)
    ]


def _until(ask: Callable[[], T], deadline: float, waiting: str) -> T:
    """Return the first answer that is true, or the last one before the deadline."""
    answer = ask()
    if not answer:
        note(waiting)
    while not answer and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        answer = ask()
    return answer


def _print(found: "Iterable[Check]") -> None:
    for check in found:
        print(safe(f"{'ok   ' if check.ok else 'wrong'}  {check.check}: {check.found}"))
        if not check.ok and check.command:
            print(safe(f"       {check.command}"))
