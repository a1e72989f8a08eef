"""The pages in Airflow: their application with Airflow's connections."""

from urllib.parse import urlsplit

from airflow.sdk.configuration import conf
from fastapi import FastAPI

from workorders.airflow.connections import database_url
from workorders.airflow.monitoring import monitoring_router
from workorders.kafka.airflow.connections import kafka_settings
from workorders.pages.airflow_database import known_runs, paused_dags, record_change
from workorders.pages.app import make_app
from workorders.pages.site import Site

DATABASE_CONNECTION = "workorders_db"
"""Airflow connection of the database whose work orders are shown."""


def application() -> FastAPI:
    """Return the application for Airflow's API server: the pages, `/metrics`, and `/health`."""
    site = Site(
        lambda: database_url(DATABASE_CONNECTION), kafka_settings, paused_dags, known_runs, record_change, _origin()
    )
    app = make_app(site)
    # For machines: it has a token of its own instead of Airflow's users.
    app.include_router(monitoring_router(DATABASE_CONNECTION))
    return app


def _origin() -> str | None:
    url = urlsplit(conf.get("api", "base_url", fallback=""))
    return f"{url.scheme}://{url.netloc}" if url.netloc else None
