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
        "hooks": _modules("workorders.airflow.hooks"),
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
        "sensors": _modules(
            "workorders.airflow.sensors.metrics",
            "workorders.airflow.sensors.runs",
            "workorders.kafka.airflow.outbox_relay",
            "workorders.kafka.airflow.triggers",
        ),
        "operators": _modules(
            "workorders.airflow.dags.factories",
            "workorders.airflow.operators.execute_runs",
            "workorders.airflow.operators.maintenance",
            "workorders.airflow.operators.sequence_gaps",
            "workorders.cron.airflow",
            "workorders.kafka.airflow.commit_offsets",
            "workorders.kafka.airflow.create_work_orders",
            "workorders.kafka.airflow.outbox_relay",
            "workorders.kafka.airflow.plan_batch",
            "workorders.manual.airflow",
        ),
        "triggers": _modules(
            "workorders.airflow.triggers.metrics",
            "workorders.airflow.triggers.runs",
            "workorders.kafka.airflow.outbox_relay",
            "workorders.kafka.airflow.stalled_batch",
            "workorders.kafka.airflow.triggers",
        ),
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": "Work orders", "python-modules": list(names)}]
