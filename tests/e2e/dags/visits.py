"""A DAG that a workflow runs for each of its work orders."""

from typing import Any

from airflow.sdk import DAG, task

with DAG(dag_id="visits", schedule=None) as dag:

    @task
    def visit(**context: Any) -> None:
        """Fail when the input demands it."""
        conf = context["dag_run"].conf
        if conf["fail"]:
            raise ValueError("no one was at home")

    visit()
