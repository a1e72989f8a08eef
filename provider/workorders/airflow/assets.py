"""The Airflow asset of a trigger's work orders, on which other Dags can be scheduled."""

from airflow.sdk import Asset, AssetAlias


def work_orders_asset(trigger: str) -> Asset:
    """Return the asset that has an event whenever a task has created work orders of a trigger.

    The event's `extra` has the number of the batch, and how many work orders were `created` and `rejected`.
    """
    return Asset(name=f"workorders_{trigger}", uri=f"workorders://triggers/{trigger}")


def outlet(trigger: str) -> AssetAlias:
    """Return the outlet of a task that creates work orders. A task can leave out the event of an alias only."""
    return AssetAlias(name=f"workorders_{trigger}")
