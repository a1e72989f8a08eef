"""The core, the outbox and the command line work where neither Airflow, Kafka nor Spark is installed."""

import subprocess
import sys

IMPORT_ALL = """
import importlib, pkgutil, sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"airflow", "confluent_kafka", "pyspark", "pyarrow", "pandas", "fastapi"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
import workorders.core, workorders.outbox

for package in (workorders.core, workorders.outbox):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # Alembic runs the migrations, and the relay needs a Kafka client.
        if ".migrations." not in module.name and "outbox.relay" not in module.name:
            importlib.import_module(module.name)
            print(module.name)
from workorders.cli.main import main
sys.argv = ["workorders", "--help"]
main()
"""


def test_everything_of_the_core_and_the_outbox_is_imported_and_the_command_line_answers() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {
        "workorders.core.creation.work_orders",
        "workorders.core.worker.process_pool",
        "workorders.outbox.enqueue",
    } <= set(done.stdout.split())
    assert "work-orders" in done.stdout
