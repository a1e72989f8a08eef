"""Spark application: create the work orders of one planned batch. It is the package's own, submitted from a checkout."""

import runpy

runpy.run_module("workorders.kafka.spark.apps.create_work_orders", run_name="__main__")
