"""Measurements against plain COPY, a bare Spark session and Airflow's own operator: `python -m benchmarks --help`."""
