"""`workorders remove`: deletes Dags that no file makes any more."""

from typing import Annotated

from workorders import dag_ids
from workorders.cli.changes import confirm
from workorders.cli.connections import require_airflow
from workorders.cli.options import Yes, argument
from workorders.cli.output import note
from workorders.core.exceptions import ConfigurationError
from workorders.visible_text import safe


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
