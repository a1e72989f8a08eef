"""The Spark application: driver, executors, source, session. The only package that imports pyspark."""
