"""The files of the Kafka triggers that a benchmark reads through Airflow."""

from pathlib import Path

SUBMITTED, ON_SERVER = "spark_default", "spark_connect_default"
WAYS = {"submitted": SUBMITTED, "on a running server": ON_SERVER}
"""How batches reach Spark, and the Airflow connection that decides it."""

_FILE = """\
name: {name}
type: kafka
workflow: benchmark
topics: [{topic}]
spark_connection: {connection}
max_messages: {max_messages}
"""


def write(folder: Path, name: str, *, connection: str = ON_SERVER, max_messages: int = 100_000) -> str:
    """Write the file of a trigger, and return the name of its one topic, which does not exist yet."""
    topic = f"bench.{name}"
    text = _FILE.format(name=name, topic=topic, connection=connection, max_messages=max_messages)
    (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return topic
