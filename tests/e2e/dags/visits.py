"""A DAG that a workflow runs for each of its work orders."""

from typing import Any

from airflow.sdk import DAG, task

with DAG(dag_id="visits", schedule=None) as dag:

    @task
    def visit(**context: Any) -> dict[str, Any]:
        """Fail when the input demands it, and return what was told about the run."""
        conf = context["dag_run"].conf
        if conf["fail"]:
            raise ValueError("no one was at home")
        return {"at": [conf["bed"], 2**40], "told": conf["workorders_context"]}

    visit()
