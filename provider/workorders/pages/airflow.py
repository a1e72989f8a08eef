"""The pages in Airflow: their application with Airflow's connections."""

from urllib.parse import urlsplit

from airflow.sdk import conf
from fastapi import FastAPI

from workorders.airflow import api_server, metadata
from workorders.airflow.connections import database_url
from workorders.core.environment import DATABASE_CONNECTION
from workorders.kafka.airflow.connections import kafka_settings
from workorders.monitoring.api import make_router, read_samples
from workorders.pages.app import make_app
from workorders.pages.site import Site


def application() -> FastAPI:
    """Return the application for Airflow's API server: the pages, and `/metrics`."""
    url = urlsplit(conf.get("api", "base_url", fallback=""))
    site = Site(
        lambda: database_url(DATABASE_CONNECTION),
        kafka_settings,
        metadata.paused_dags,
        conf.get_mandatory_value("api", "secret_key"),
        api_server.write_audit_log,
        f"{url.scheme}://{url.netloc}" if url.netloc else None,
    )
    app = make_app(site)
    # For machines: it has a token instead of Airflow's users.
    app.include_router(make_router(lambda: read_samples(site.database_url)))
    return app
