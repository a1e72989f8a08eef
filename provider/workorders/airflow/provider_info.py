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
    }
