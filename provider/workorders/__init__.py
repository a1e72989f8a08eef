"""Kafka messages become work orders in Postgres exactly once, driven by Apache Airflow.

The rooms: `core` (work orders in Postgres; knows no source), `kafka` (the only room that knows Kafka), `airflow` (what
every trigger type needs of Airflow), `cli` (the `workorders` command).
"""

__version__ = "0.1.0"
