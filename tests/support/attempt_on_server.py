"""Make one attempt at a batch on a Spark Connect server, in a separate process, as the ingest task does.

It takes the arguments of the Spark application, and ends as that does. The variable ON_SERVER has the server's Airflow
connection.
"""

import json
import os
import sys

ON_SERVER = "AIRFLOW_CONN_TEST_SPARK_CONNECT"


def main() -> int:
    """Make the attempt."""
    # A process that only names the variable does not load PySpark.
    from workorders.kafka.spark import driver
    from workorders.kafka.spark.connect import ConnectServer, ConnectSession

    given = json.loads(os.environ[ON_SERVER])
    server = ConnectServer(name="spark_connect", host="localhost", port=given["port"], token=given["password"])
    with ConnectSession(server, conf={}) as session:
        return driver.main(lambda: session.open(0))


if __name__ == "__main__":
    sys.exit(main())
