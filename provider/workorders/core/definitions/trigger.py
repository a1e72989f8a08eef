"""Triggers as code: one YAML file each, validated by the model of its type."""

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
    """Unique name: small letters, digits, `-` and `_`. It names the DAGs and stands in every message."""
    type: str
    """Type of the trigger, such as `kafka`."""
    workflow: Name
    """Name of the workflow that the work orders are for."""
    description: str = ""
    """What the trigger is for; shown with its DAGs."""
    owner: str = "workorders"
    """Owner of the DAGs in Airflow."""
    tags: tuple[str, ...] = ()
    """Tags of the DAGs, beside the ones that every trigger gets."""
    database_connection: ConnectionId = "workorders_db"
    """Airflow connection of the Postgres database that holds the work orders."""
    idempotency: Idempotency | None = None
    """By what a repeated event is known; nothing is held to be repeated if not given."""
    sequence: Sequence | None = None
    """By what numbers the events of one key are let in; in any order if not given."""
    notify: Annotated[
        tuple[ImportPath, ...],
        AfterValidator(each_once),
        expecting("a list of names in modules such as [shop.alerts.page]"),
    ] = ()
    """What is called with an alert: names in modules, each of a function that takes the alert, or of an instance of an
    Airflow notifier."""


def trigger_types() -> Mapping[str, type[TriggerDefinition]]:
    """Return the class of each trigger type that is installed, by the type's name."""
    return {point.name: point.load() for point in entry_points(group=TRIGGER_TYPES_GROUP)}
