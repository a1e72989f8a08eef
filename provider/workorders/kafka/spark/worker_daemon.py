"""The process that forks the Python workers of our Spark Connect server.

It imports what every worker needs before it forks, because an idle worker ends after a minute and the next batch would
import it again. pyarrow, and so `partition_ingest`, are left out: they start threads, and a process with threads must
not fork.
"""

import orjson  # noqa: F401
import psycopg  # noqa: F401
from pyspark import daemon

import workorders.core.creation.work_orders
import workorders.kafka.client.range_consumer
import workorders.kafka.ledger.positions  # noqa: F401
from workorders.kafka.spark.installed_package import installed_package

if __name__ == "__main__":
    installed_package()  # remembered for the workers: the files may change later, and what is imported does not
    daemon.manager()
