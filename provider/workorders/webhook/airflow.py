"""Connects webhooks with Airflow: their definitions, secrets, and databases. They have no Dag."""

import time
from typing import TYPE_CHECKING

from airflow.sdk import DAG, BaseHook

from workorders.airflow.connections import database_url
from workorders.webhook.authentication import Secret
from workorders.webhook.definition import WebhookTriggerDefinition

if TYPE_CHECKING:
    from fastapi import FastAPI


def application() -> "FastAPI":
    """Return the application for Airflow's API server, and for a separate server."""
    # Here, because Dag files import this module as well and need none of it.
    from workorders.webhook.app import Webhooks, make_app  # noqa: PLC0415
    from workorders.webhook.callers import Callers  # noqa: PLC0415
    from workorders.webhook.handler import RequestHandler  # noqa: PLC0415
    from workorders.webhook.hooks import Hooks  # noqa: PLC0415

    handler = RequestHandler(database_url)
    return make_app(Webhooks(Hooks(handler.list_served, time.monotonic), handler, Callers(_secret, time.monotonic)))


def make_dags(definition: WebhookTriggerDefinition) -> list[DAG]:
    """Return no Dag: the API server creates the work orders while the requests wait."""
    del definition
    return []


def _secret(connection_id: str) -> Secret:
    connection = BaseHook.get_connection(connection_id)
    return Secret(connection.login or "", connection.password or "")
