"""`workorders webhooks`: the webhooks of the database, and a server for them alone."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer

from workorders.cli.connections import connect, connect_to_write
from workorders.cli.definitions import read_paths, read_workflows, report
from workorders.cli.options import AsJson, Database, argument
from workorders.cli.output import note, show_rows
from workorders.core.definitions.loading import TRIGGERS
from workorders.core.environment import DATABASE_CONNECTION
from workorders.core.exceptions import ConfigurationError
from workorders.webhook import stored_webhooks
from workorders.webhook.definition import WebhookTriggerDefinition
from workorders.webhook.stored_webhooks import StoredWebhook

app = typer.Typer(no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False, database: Database = None) -> None:
    """List the webhooks of the database.

    Every API server serves them.

    Example:
      workorders webhooks list
    """
    with connect(database) as connection:
        found = stored_webhooks.list_stored(connection)
    show_rows(StoredWebhook, found, as_json=as_json, columns="name path stored_at")


@app.command()
def apply(
    paths: Annotated[
        list[Path], argument("PATH...", "All trigger files; those of other types are left out.", exists=True)
    ],
    database: Database = None,
) -> None:
    """Store the webhooks of files, and remove all others.

    The database then has exactly the webhooks of these files, and API servers serve them within a second. Also
    registers their workflows, from the folder `workflows` next to theirs or from WORKORDERS_WORKFLOWS. Run it in each
    deployment, after `workorders db migrate`. Exits with 1, and changes nothing, if a trigger file is wrong.

    Example:
      workorders webhooks apply include/triggers
    """
    found = read_paths(TRIGGERS, paths)
    if found.mistakes:
        report(TRIGGERS, found, "is valid, and was not stored")
    folders = {name: Path(source).parent for name, source in found.sources.items()}
    workflows = {folder: read_workflows(folder) for folder in set(folders.values())}
    webhooks = [
        trigger.with_workflow(workflows[folders[name]].find(trigger.workflow))
        for name, trigger in found.definitions.items()
        if isinstance(trigger, WebhookTriggerDefinition)
    ]
    with connect_to_write(database) as connection:
        done = stored_webhooks.apply(connection, webhooks)
    for webhook in webhooks:
        if webhook.database_connection != DATABASE_CONNECTION:
            note(
                f"webhook {webhook.name}: its work orders are in the database of the Airflow connection "
                f"{webhook.database_connection}, so its workflow {webhook.workflow} was not registered; run "
                "`workorders workflows apply` with that database."
            )
    for name, outcome in done.items():
        print(f"webhook {name}: {outcome}")


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port to listen on.", min=1, max=65535)] = 8090,
) -> None:
    """Serve webhooks without Airflow's API server, until stopped.

    For callers that cannot reach the API server. The URLs are the same: /workorders/webhooks/PATH. Airflow connections
    name the secrets and the database. Put a proxy with TLS before an address that other machines reach.

    Examples:
      workorders webhooks serve
      workorders webhooks serve --host 0.0.0.0 --port 8443
    """
    try:
        import uvicorn  # noqa: PLC0415 - for this command alone, and slow
        from starlette.applications import Starlette  # noqa: PLC0415
        from starlette.routing import Mount  # noqa: PLC0415

        # Outside its own processes Airflow reads its metadata database only with this variable.
        os.environ.setdefault("_AIRFLOW_PROCESS_CONTEXT", "server")
        from workorders.webhook.airflow import application  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            f"The server of webhooks needs Airflow's packages ({error}); nothing was started; install "
            "airflow-provider-workorders[airflow]."
        ) from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    server = Starlette(routes=[Mount("/workorders/webhooks", application())])
    uvicorn.run(server, host=host, port=port, log_level="info", access_log=False)
