"""Forms to rerun, cancel and export work orders; retention; the refresh of the search index."""

from workorders.airflow.dags import history_dags

globals().update(history_dags())
