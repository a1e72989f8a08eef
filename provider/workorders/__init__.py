"""Kafka messages, schedules, and webhooks with an idempotency key become work orders in Postgres exactly once.

The names below are public, together with `workorders.exceptions`, `workorders.outbox`, and what `workorders.airflow`
and `workorders.kafka.airflow` name in their `__all__`. Every other module is internal. Each name is loaded when it is
first used, because Airflow imports every installed provider: importing this package must load neither Airflow, Kafka,
Spark, nor SQLAlchemy.
"""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workorders.core.creation.create_one import CreateResult as CreateResult
    from workorders.core.creation.create_one import create_one as create_one
    from workorders.core.creation.work_orders import Created as Created
    from workorders.core.creation.work_orders import create_for as create_for
    from workorders.core.definitions.trigger import TriggerDefinition as TriggerDefinition
    from workorders.core.definitions.workflow import workflow as workflow
    from workorders.core.items import Item as Item
    from workorders.core.items import Rejection as Rejection
    from workorders.core.postgres.connection import connect as connect
    from workorders.core.schema import upgrade
    from workorders.core.triggers import Trigger as Trigger
    from workorders.core.triggers import find
    from workorders.core.worker.context import Context as Context
    from workorders.outbox.enqueue import publish as publish

    find_trigger, migrate_schema = find, upgrade
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Context": "core.worker.context",
            "CreateResult": "core.creation.create_one",
            "Created": "core.creation.work_orders",
            "Item": "core.items",
            "Rejection": "core.items",
            "Trigger": "core.triggers",
            "TriggerDefinition": "core.definitions.trigger",
            "connect": "core.postgres.connection",
            "create_for": "core.creation.work_orders",
            "create_one": "core.creation.create_one",
            "find_trigger": "core.triggers:find",
            "migrate_schema": "core.schema:upgrade",
            "publish": "outbox.enqueue",
            "workflow": "core.definitions.workflow",
        },
    )
    __all__ = list(__dir__())
