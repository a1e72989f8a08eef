"""`workorders spark`: a Spark that is already running when a batch comes."""

import os
from pathlib import Path
from typing import Annotated

import typer

from workorders.core.exceptions import ConfigurationError

app = typer.Typer(no_args_is_help=True)

_JARS_VARIABLE = "WORKORDERS_SPARK_JARS"


@app.callback()
def about() -> None:
    """Start a Spark Connect server, on which a batch takes a second or two and not the start of a JVM."""


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 for any free one.", min=0, max=65535)] = 15002,
    master: Annotated[str, typer.Option(help="The Spark master whose executors run the batches.")] = "local[*]",
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A Spark setting; may be given several times.")
    ] = None,
) -> None:
    """Run a Spark Connect server until it is stopped.

    Name it in Airflow by a connection of the type spark_connect, and the connection in a trigger's spark_connection.
    The jars of Spark's Kafka source are those of WORKORDERS_SPARK_JARS. On an address that other machines reach, the
    server needs a token in SPARK_CONNECT_AUTHENTICATE_TOKEN, and a TLS proxy before it.

    \b
    Examples:
      workorders spark serve
      workorders spark serve --port 15010 --conf spark.driver.memory=4g
    """  # noqa: D301 - \b is the character itself: it keeps the lines
    settings = dict(map(_setting, conf or []))
    jars = [Path(path) for path in os.environ.get(_JARS_VARIABLE, "").split(",") if path]
    missing = [str(path) for path in jars if not path.is_file()]
    if missing:
        raise ConfigurationError(
            f"{_JARS_VARIABLE} names files that do not exist ({', '.join(missing)}); the Spark Connect server was not "
            f"started. Give the full paths of the jars, with commas between them."
        )
    from workorders.kafka.spark.connect_server import serve as run  # noqa: PLC0415 - PySpark, for this command alone

    run(host=host, port=port, master=master, jars=jars, conf=settings, ready=_ready)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise ConfigurationError(
            f"--conf {text} is no Spark setting; the Spark Connect server was not started. Write it as in "
            f"--conf spark.driver.memory=4g."
        )
    return name, value


def _ready(port: int) -> None:
    print(f"The Spark Connect server is ready on port {port}.", flush=True)
