"""The maintenance of the database, and its metrics."""

from workorders.airflow.dags import maintenance_dags

globals().update(maintenance_dags())
