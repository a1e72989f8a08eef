"""Airflow's REST API, as a person uses it through the pages: looks, clears, pauses. Nothing goes past it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from support.eventually import eventually

TIMEOUT_SECONDS = 60.0
_PAGE = 100
"""As many as Airflow gives at once."""
_KNOWN_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Run:
    """A DAG run."""

    dag_id: str
    id: str
    state: str
    note: str | None
    conf: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Task:
    """A task instance: one task of one run, and its index when it is mapped."""

    run: Run
    id: str
    map_index: int
    state: str | None
    try_number: int
    hostname: str
    pid: int | None
    start_date: str | None
    end_date: str | None
    rendered_fields: dict[str, Any]


class AirflowApi:
    """A client of one Airflow.

    Args:
        url: where its API server is.
        login: name and password; none for an Airflow that asks for no login.
    """

    def __init__(self, url: str, login: tuple[str, str] | None = None) -> None:
        self._client = httpx.Client(base_url=f"{url}/api/v2", timeout=TIMEOUT_SECONDS, trust_env=False)
        if login is not None:
            name, password = login
            answer = self._client.post(f"{url}/auth/token", json={"username": name, "password": password})
            self._client.headers["Authorization"] = f"Bearer {self._answer(answer)['access_token']}"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, **parameters: Any) -> dict[str, Any]:
        """Return the answer to a GET.

        Raises:
            httpx.HTTPStatusError: Airflow answered with an error.
        """
        return self._answer(self._client.get(path, params=parameters))

    def dag_ids(self) -> set[str]:
        """Return the id of every DAG, also of one that was found just now and has no details yet."""
        return {dag["dag_id"] for dag in self.get("/dags", limit=100, exclude_stale=True)["dags"]}

    def knows(self, dag_id: str) -> bool:
        """Return whether Airflow has a DAG with its details, and can start a run of it."""
        return bool(self._client.get(f"/dags/{dag_id}/details").is_success)

    def import_errors(self) -> list[dict[str, Any]]:
        """Return the DAG files that could not be read."""
        errors: list[dict[str, Any]] = self.get("/importErrors")["import_errors"]
        return errors

    def set_paused(self, dag_id: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self._answer(self._client.patch(f"/dags/{dag_id}", json={"is_paused": paused}))

    def set_connection(self, connection_id: str, kind: str, extra: str) -> None:
        """Define a connection, or put it right."""
        body = {"connection_id": connection_id, "conn_type": kind, "extra": extra}
        path = f"/connections/{connection_id}"
        if self._client.get(path).is_success:
            self._answer(self._client.patch(path, json=body))
        else:
            self._answer(self._client.post("/connections", json=body))

    def create_pool(self, pool: str, slots: int) -> None:
        """Create a pool."""
        self._answer(self._client.post("/pools", json={"name": pool, "slots": slots}))

    def set_slots(self, pool: str, slots: int) -> None:
        """Set how many tasks of a pool may run at a time."""
        self._answer(self._client.patch(f"/pools/{pool}", params={"update_mask": "slots"}, json={"slots": slots}))

    def slots(self, pool: str) -> int:
        """Return how many tasks of a pool may run at a time."""
        return int(self.get(f"/pools/{pool}")["slots"])

    def runs(self, dag_id: str) -> list[Run]:
        """Return the runs of a DAG, oldest first; none for a DAG that Airflow has not read yet."""
        found: list[Run] = []
        while True:
            page: dict[str, str | int] = {"order_by": "run_after", "limit": _PAGE, "offset": len(found)}
            answer = self._client.get(f"/dags/{dag_id}/dagRuns", params=page)
            if answer.status_code == httpx.codes.NOT_FOUND:
                return []
            runs = self._answer(answer)["dag_runs"]
            found += [
                Run(dag_id, run["dag_run_id"], run["state"], run.get("note"), run.get("conf") or {}) for run in runs
            ]
            if len(runs) < _PAGE:
                return found

    def tasks(self, run: Run) -> list[Task]:
        """Return the task instances of a run."""
        found = self.get(f"{_path(run)}/taskInstances")["task_instances"]
        return [
            Task(
                run,
                item["task_id"],
                item["map_index"],
                item["state"],
                item["try_number"],
                item["hostname"] or "",
                item["pid"],
                item["start_date"],
                item["end_date"],
                item["rendered_fields"],
            )
            for item in found
        ]

    def task(self, run: Run, task_id: str) -> Task:
        """Return one task instance of a run; of a mapped task the first."""
        return next(task for task in self.tasks(run) if task.id == task_id)

    def tries(self, task: Task) -> dict[int, dict[str, Any]]:
        """Return the tries of a task by their number."""
        found = self.get(f"{_path(task.run)}/taskInstances/{task.id}/tries")["task_instances"]
        return {one["try_number"]: one for one in found}

    def log(self, task: Task, try_number: int | None = None) -> list[dict[str, Any]]:
        """Return the lines of a task's log, of its last try unless another is named."""
        path = f"{_path(task.run)}/taskInstances/{task.id}/logs/{try_number or task.try_number}"
        answer = self.get(path, map_index=task.map_index, full_content=True)
        lines: list[dict[str, Any]] = [line for line in answer["content"] if isinstance(line, dict)]
        return lines

    def log_text(self, task: Task, try_number: int | None = None) -> str:
        """Return a task's log as text: time, level and message a line."""
        return "\n".join(
            f"{line.get('timestamp', '')} {line.get('level', '')} {line.get('event', '')}"
            for line in self.log(task, try_number)
        )

    def error(self, task: Task, try_number: int | None = None) -> str:
        """Return the text of the last error in a task's log; empty when there is none."""
        details = [line["error_detail"] for line in self.log(task, try_number) if line.get("error_detail")]
        return str(details[-1][-1]["exc_value"]) if details else ""

    def trigger(
        self, dag_id: str, conf: dict[str, Any], run_id: str | None = None, logical_date: str | None = None
    ) -> str:
        """Start a run of a DAG, once Airflow knows it, with what its form was filled in with; return the run's id."""
        eventually(lambda: self.knows(dag_id), seconds=_KNOWN_SECONDS, what=f"the Dag {dag_id}")
        body = {"logical_date": logical_date, "conf": conf, **({"dag_run_id": run_id} if run_id else {})}
        answer = self._client.post(f"/dags/{dag_id}/dagRuns", json=body)
        return str(self._answer(answer)["dag_run_id"])

    def clear_task(self, run: Run, *task_ids: str) -> None:
        """Clear tasks of a run, and nothing else, as the button does."""
        self._clear_tasks(run, task_ids)

    def delete_run(self, run: Run) -> None:
        """Delete a run with all that Airflow knows of it."""
        self._answer(self._client.delete(_path(run)))

    def mark_run(self, run: Run, state: str) -> None:
        """Mark a run as `success` or `failed`; what it does is killed."""
        self._answer(self._client.patch(_path(run), json={"state": state}))

    def mark_task(self, run: Run, task_id: str, state: str) -> None:
        """Mark a task of a run as `success` or `failed`; what it does is killed."""
        self._answer(self._client.patch(f"{_path(run)}/taskInstances/{task_id}", json={"new_state": state}))

    def _clear_tasks(self, run: Run, task_ids: Sequence[str]) -> None:
        body = {
            "dry_run": False,
            "dag_run_id": run.id,
            "task_ids": list(task_ids),
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self._answer(self._client.post(f"/dags/{run.dag_id}/clearTaskInstances", json=body))

    @staticmethod
    def _answer(response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            raise httpx.HTTPStatusError(
                f"{response.request.method} {response.request.url}: {response.status_code} {response.text}",
                request=response.request,
                response=response,
            )
        answer: dict[str, Any] = response.json() if response.content else {}
        return answer


def _path(run: Run) -> str:
    return f"/dags/{run.dag_id}/dagRuns/{quote(run.id, safe='')}"
