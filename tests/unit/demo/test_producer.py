import subprocess
import sys

from demo.health_events import Event
from demo.producer import Sent


def test_the_producer_knows_nothing_of_work_orders_airflow_or_spark() -> None:
    program = "import demo.producer, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"demo", "confluent_kafka"} <= loaded
    assert not loaded & {"workorders", "local_stack", "airflow", "pyspark", "psycopg"}


def test_what_was_sent_is_counted_with_its_flaws() -> None:
    sent = Sent()
    for flaw in (None, "array", "array", "NaN"):
        sent.commit(Event(b"key", b"value", [], flaw))
    assert (sent.committed, dict(sent.flaws)) == (4, {"array": 2, "NaN": 1})
