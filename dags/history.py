"""Forms to rerun, cancel and export work orders; retention; the upkeep of full text."""

from workorders.airflow.dags import history_dags

globals().update(history_dags())
