"""The process that forks the Python workers of our Spark Connect server.

It imports what every worker needs before it forks, because an idle worker ends after a minute and the next batch would
import it again, for a quarter of a second of each core. pyarrow, and so `partition_ingest`, are left out: they start
threads, and a process with threads must not fork.
"""

import os
from contextlib import suppress

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # otherwise numpy, which pyarrow imports, starts threads as well
with suppress(ImportError):
    import numpy  # noqa: F401
from pyspark import daemon

import workorders.core.postgres.connection
import workorders.kafka.ingest.log_checks
import workorders.kafka.ingest.record_mapping
import workorders.kafka.ingest.transaction  # noqa: F401
from workorders.kafka.spark.installed_package import installed_package

if __name__ == "__main__":
    installed_package()  # remembered for the workers: the files may change later, and what is imported does not
    daemon.manager()
