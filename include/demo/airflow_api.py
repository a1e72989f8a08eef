"""What the demo asks of Airflow, through its REST API alone."""

from typing import Any, Final

import httpx

_SECONDS: Final = 30.0
_AT_WORK: Final = ("running", "up_for_retry", "restarting")


class AirflowApi:
    """The REST API of one Airflow.

    Args:
        url: of its pages.
        login: user and password; None if it asks for none.
    """

    def __init__(self, url: str, login: tuple[str, str] | None = None) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v2", timeout=_SECONDS, trust_env=False)
        if login is not None:
            answer = self._client.post(f"{url}/auth/token", json={"username": login[0], "password": login[1]})
            answer.raise_for_status()
            self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def at_work(self) -> list[str]:
        """Return the task instances that work or wait for their next try: DAG, run and task, and the state."""
        instances = self._get("/dags/~/dagRuns/~/taskInstances", {"state": _AT_WORK})["task_instances"]
        return sorted(_label(instance) for instance in instances)

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a Dag run."""
        return str(self._get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def run_note(self, dag_id: str, run_id: str) -> str:
        """Return the note of a Dag run."""
        return str(self._get(f"/dags/{dag_id}/dagRuns/{run_id}")["note"] or "")

    def try_number(self, dag_id: str, run_id: str, task_id: str) -> int:
        """Return the number of the task's last try."""
        return int(self._get(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")["try_number"])

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> list[str]:
        """Return the lines that a try wrote."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        return [str(entry["event"]) for entry in self._get(path, {"full_content": "true"})["content"]]

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear a finished task and those after it: what "Clear task" does in the UI."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": [task_id],
            "only_failed": False,
            "include_downstream": True,
        }
        self._client.post(f"/dags/{dag_id}/clearTaskInstances", json=body).raise_for_status()

    def _get(self, path: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self._client.get(path, params=parameters)
        answer.raise_for_status()
        return dict(answer.json())


def _label(instance: dict[str, Any]) -> str:
    # A listener run is named by its time, which identifies nothing here.
    run = f" {instance['dag_run_id']}" if instance["dag_run_id"].startswith("batch_") else ""
    state = "" if instance["state"] == "running" else f" ({instance['state'].replace('_', ' ')})"
    return f"{instance['dag_id']}{run} {instance['task_id']}{state}"
