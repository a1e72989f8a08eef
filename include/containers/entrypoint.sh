#!/usr/bin/env bash
# Names the Spark connector's jars to Airflow, then becomes the service.
set -euo pipefail
WORKORDERS_SPARK_JARS=$(cat /opt/spark-jars)
export WORKORDERS_SPARK_JARS
exec "$@"
