"""A DAG that a workflow runs for each of its work orders."""

from typing import Any

from airflow.sdk import DAG, task

with DAG(dag_id="visits", schedule=None) as dag:

    @task
    def visit(**context: Any) -> None:
        """Fail when the input says so."""
        if context["dag_run"].conf["fail"]:
            raise ValueError("nobody was at home")

    visit()
