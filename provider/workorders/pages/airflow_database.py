"""Whether Dags are paused, which Dag runs there are, and the audit log.

Reads and writes Airflow's database, which is open to the API server.
"""

import json
from collections.abc import Collection

from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.utils.session import create_session
from sqlalchemy import select

from workorders.pages.audit import Change


def paused_dags(dag_ids: Collection[str]) -> dict[str, bool]:
    """Return whether each of these Dags is paused; none for a Dag that Airflow does not know."""
    with create_session(scoped=False) as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids)))
        return {dag_id: bool(is_paused) for dag_id, is_paused in rows}


def known_runs(dag_id: str, run_ids: Collection[str]) -> set[str]:
    """Return those of the Dag runs that Airflow has."""
    with create_session(scoped=False) as session:
        rows = session.execute(select(DagRun.run_id).where(DagRun.dag_id == dag_id, DagRun.run_id.in_(run_ids)))
        return {run_id for (run_id,) in rows}


def record_change(change: Change) -> None:
    """Write a change into Airflow's audit log, as Airflow does with the changes through its own pages."""
    with create_session(scoped=False) as session:
        for dag_id in change.dag_ids:
            session.add(
                Log(
                    event=change.event,
                    dag_id=dag_id,
                    owner=change.user,
                    owner_display_name=change.user,
                    extra=json.dumps(change.details, ensure_ascii=False),
                )
            )
