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
        "hooks": _modules("airflow.hooks"),
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
        "sensors": _modules("airflow.sensors.runs", "kafka.airflow.outbox_relay", "kafka.airflow.sensors"),
        "operators": _modules(
            "airflow.dags.factories",
            "airflow.operators.bulk_jobs",
            "airflow.operators.execute_runs",
            "airflow.operators.maintenance",
            "airflow.operators.sequence_gaps",
            "cron.airflow",
            "kafka.airflow.operators",
            "kafka.airflow.outbox_relay",
            "kafka.airflow.resolve",
            "manual.airflow",
        ),
        "triggers": _modules(
            "airflow.triggers.runs",
            "kafka.airflow.outbox_relay",
            "kafka.airflow.triggers",
        ),
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": "Work orders", "python-modules": [f"workorders.{name}" for name in names]}]
