"""What Airflow needs of every trigger type: provider information, connections, Dag factories, retries."""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

if TYPE_CHECKING:
    from workorders.airflow.assets import work_orders_asset as work_orders_asset
    from workorders.airflow.retries import unlimited_retries as unlimited_retries
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "unlimited_retries": "retries",
            "work_orders_asset": "assets",
        },
    )
    __all__ = list(__dir__())
