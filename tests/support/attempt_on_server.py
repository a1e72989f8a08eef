"""Make one attempt at a batch on the stack's Spark Connect server, in a process of its own, as the ingest task does.

It takes the arguments of the Spark application, and ends as that does.
"""

import json
import os
import sys

from workorders.kafka.spark import driver
from workorders.kafka.spark.connect import ConnectServer, ConnectSession

if __name__ == "__main__":
    given = json.loads(os.environ["AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"])
    server = ConnectServer(name="spark_connect_default", host="localhost", port=given["port"], token=given["password"])
    with ConnectSession(server, pool="tests", conf={}) as session:
        code = driver.main(sys.argv[1:], session=session.open)
    sys.exit(code)
