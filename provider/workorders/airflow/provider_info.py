"""What Airflow's provider manager shows of this package. Imports nothing heavy: every component reads it at start."""

from typing import Any

from workorders import __version__


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description in the form of Airflow's provider_info schema."""
    return {
        "package-name": "airflow-provider-workorders",
        "name": "Work orders",
        "description": (
            "Kafka messages become work orders in Postgres exactly once, driven by Airflow and processed by Spark."
        ),
        "versions": [__version__],
        "hooks": [{"integration-name": "Work orders", "python-modules": ["workorders.airflow.hooks"]}],
        "connection-types": [
            {
                "connection-type": "workorders",
                "hook-class-name": "workorders.airflow.hooks.WorkOrdersHook",
                "hook-name": "Work orders",
                "ui-field-behaviour": {
                    "hidden-fields": [],
                    "relabeling": {"schema": "Database"},
                    "placeholders": {"port": "5432", "schema": "workorders"},
                },
            }
        ],
    }
