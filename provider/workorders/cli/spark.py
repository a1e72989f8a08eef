"""`workorders spark`: a Spark that runs already when a batch comes, or starts faster."""

import os
from pathlib import Path
from typing import Annotated

import typer

from workorders.cli.options import argument
from workorders.core.environment import SPARK_JARS_VARIABLE
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark.cache import make_cache_folder
from workorders.kafka.spark.class_archive import create_archive
from workorders.kafka.spark.kafka_source import EXCLUDED, download, package, split_jars

app = typer.Typer(no_args_is_help=True)


@app.command()
def serve(
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", help="The port to listen on; 0 for any free one.", min=0, max=65535)
    ] = 15002,
    master: Annotated[
        str, typer.Option("--master", help="The Spark master whose executors run the batches.")
    ] = "local[*]",
    conf: Annotated[
        list[str] | None,
        typer.Option("--conf", metavar="NAME=VALUE", help="A Spark setting; may be given several times."),
    ] = None,
) -> None:
    """Run a Spark Connect server until it is stopped.

    Name it in Airflow by a connection of the type spark_connect, and the connection in a trigger's spark_connection.
    The jars of Spark's Kafka source are those of WORKORDERS_SPARK_JARS, or come from Maven Central. Clients need the
    token of SPARK_CONNECT_AUTHENTICATE_TOKEN; without it the server makes one, in a file that tasks of this user read.
    Put a TLS proxy before an address that other machines reach.

    Examples:
      workorders spark serve
      workorders spark serve --port 15010 --conf spark.driver.memory=4g
    """
    settings, jars = dict(map(_setting, conf or [])), _jars()
    if not jars:
        settings = {"spark.jars.packages": package(), "spark.jars.excludes": EXCLUDED, **settings}
    from workorders.kafka.spark.connect_server import serve as run  # noqa: PLC0415 - PySpark, for this command alone

    run(host=host, port=port, master=master, jars=jars, conf=settings, ready=_ready)


@app.command()
def archive() -> None:
    """Archive Spark's classes, so that applications start faster.

    Run it once where Airflow's workers run, as their user, with their JAVA_HOME and WORKORDERS_SPARK_JARS. The archive
    has about 200 MB, in ~/.cache/workorders or XDG_CACHE_HOME.

    Example:
      workorders spark archive
    """
    print(create_archive(_jars()))


@app.command()
def jars(
    folder: Annotated[Path | None, argument("FOLDER", "Folder; default: one in ~/.cache/workorders.")] = None,
    *,
    unchecked: Annotated[bool, typer.Option("--unchecked", help="Keep jars without a known checksum.")] = False,
) -> None:
    """Download the jars of Spark's Kafka source, compare them with known checksums, and print their paths.

    They are the value of WORKORDERS_SPARK_JARS. Without that variable, each submitted application gets the jars from
    Maven Central, unchecked.

    Examples:
      export WORKORDERS_SPARK_JARS=$(workorders spark jars)
      workorders spark jars /opt/workorders/jars
    """
    folder = (folder or make_cache_folder("spark-jars") / package().rpartition(":")[2]).resolve()
    print(",".join(map(str, download(folder, is_checked=not unchecked))))


def _jars() -> list[Path]:
    jars = split_jars(os.environ.get(SPARK_JARS_VARIABLE))
    missing = [str(path) for path in jars if not path.is_file()]
    if missing:
        raise ConfigurationError(
            f"{SPARK_JARS_VARIABLE} names files that do not exist ({', '.join(missing)}); nothing was started. "
            f"Give the full paths of the jars, with commas between them."
        )
    return jars


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise ConfigurationError(
            f"--conf {text} is no Spark setting; the Spark Connect server was not started. Write it as in "
            f"--conf spark.driver.memory=4g."
        )
    return name, value


def _ready(port: int, token_file: Path | None) -> None:
    print(f"The Spark Connect server is ready on port {port}.", flush=True)
    if token_file is not None:
        print(f"Its token is in {token_file}.", flush=True)
