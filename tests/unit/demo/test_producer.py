import subprocess
import sys


def test_the_producer_knows_nothing_of_work_orders_airflow_or_spark() -> None:
    program = "import demo.producer, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert {"demo", "confluent_kafka"} <= loaded
    assert not loaded & {"workorders", "local_stack", "airflow", "pyspark", "psycopg"}
