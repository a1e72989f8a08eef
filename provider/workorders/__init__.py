"""Kafka messages, webhooks, and schedules become work orders in Postgres exactly once.

The names below are public, together with `workorders.exceptions`, `workorders.outbox`, and what `workorders.airflow`
and `workorders.kafka.airflow` name in their `__all__`. Every other module is internal. Each name is loaded when it is
first used, because Airflow imports every installed provider: importing this package must load neither Airflow, Kafka,
Spark, nor SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from workorders.core.creation.create_one import create_one as create_one
    from workorders.core.creation.work_orders import create_for as create_for
    from workorders.core.definitions.decorator import workflow as workflow
    from workorders.core.definitions.trigger import TriggerDefinition as TriggerDefinition
    from workorders.core.items import Item as Item
    from workorders.core.items import Rejection as Rejection
    from workorders.core.postgres.connection import connect as connect
    from workorders.core.schema import upgrade as upgrade_schema
    from workorders.core.triggers import find as find_trigger
    from workorders.core.worker.context import Context as Context
    from workorders.outbox.enqueue import publish as publish

__version__ = "0.1.0"

_PLACES: Final = {
    "Context": "workorders.core.worker.context:Context",
    "Item": "workorders.core.items:Item",
    "Rejection": "workorders.core.items:Rejection",
    "TriggerDefinition": "workorders.core.definitions.trigger:TriggerDefinition",
    "connect": "workorders.core.postgres.connection:connect",
    "create_for": "workorders.core.creation.work_orders:create_for",
    "create_one": "workorders.core.creation.create_one:create_one",
    "find_trigger": "workorders.core.triggers:find",
    "publish": "workorders.outbox.enqueue:publish",
    "upgrade_schema": "workorders.core.schema:upgrade",
    "workflow": "workorders.core.definitions.decorator:workflow",
}
"""Public name to `module:name`."""

__all__ = [
    "Context",
    "Item",
    "Rejection",
    "TriggerDefinition",
    "__version__",
    "connect",
    "create_for",
    "create_one",
    "find_trigger",
    "publish",
    "upgrade_schema",
    "workflow",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return __all__
