"""Spark application: create the work orders of one planned batch. It runs the application of the package."""

import runpy

runpy.run_module("workorders.kafka.spark.apps.create_work_orders", run_name="__main__")
