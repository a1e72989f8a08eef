"""Spark application: create the work orders of one planned batch. Submitted by the ingest DAG of a Kafka trigger."""

import sys

from workorders.kafka.application import main

if __name__ == "__main__":
    sys.exit(main())
