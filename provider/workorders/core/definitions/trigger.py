"""The fields that every trigger's file has, and the installed trigger types."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Annotated

from pydantic import AfterValidator

from workorders.core.definitions.admission import Idempotency, Sequence
from workorders.core.definitions.fields import ConnectionId, Definition, ImportPath, Name, each_once, expecting

TRIGGER_TYPES_GROUP = "workorders.trigger_types"
"""Entry point group in which a distribution announces a trigger type: its name, and its definition's class."""


class TriggerDefinition(Definition):
    """The fields that every trigger has; a type adds its own."""

    name: Name
    """Unique name: small letters, digits, `-` and `_`. Dag ids and messages contain it."""
    type: str
    """Type of the trigger, such as `kafka`."""
    workflow: Name
    """Name of the workflow that the work orders are for."""
    description: str = ""
    """Purpose of the trigger; shown with its Dags."""
    owner: str = "workorders"
    """Owner of the Dags in Airflow."""
    tags: tuple[str, ...] = ()
    """Tags of the Dags, in addition to those that every trigger gets."""
    database_connection: ConnectionId = "workorders_db"
    """Airflow connection of the Postgres database that holds the work orders."""
    idempotency: Idempotency | None = None
    """How duplicates of an event are recognized; not at all if not given."""
    sequence: Sequence | None = None
    """How the events of one key are ordered; in any order if not given."""
    notify: Annotated[
        tuple[ImportPath, ...],
        AfterValidator(each_once),
        expecting("a list of names in modules such as [shop.alerts.page]"),
    ] = ()
    """What is called with an alert: import paths, each of a function that takes the alert or of an Airflow notifier."""


def trigger_types() -> Mapping[str, type[TriggerDefinition]]:
    """Return the class of each installed trigger type, by the type's name."""
    return {point.name: point.load() for point in entry_points(group=TRIGGER_TYPES_GROUP)}
