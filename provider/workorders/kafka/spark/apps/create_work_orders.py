"""Spark application: create the work orders of one planned batch. Submitted by the ingest Dag of a Kafka trigger."""

import sys

from workorders.kafka.spark.session import start_session

if __name__ == "__main__":
    session = start_session()

    # Imported while the JVM starts, which saves a second per batch.
    from workorders.kafka.spark.driver import main

    sys.exit(main(session.result))
