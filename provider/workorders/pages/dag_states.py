"""Whether Dags are paused: reads Airflow's database, which is open to the API server."""

from collections.abc import Collection

from airflow.models.dag import DagModel
from airflow.utils.session import create_session
from sqlalchemy import select


def paused_dags(dag_ids: Collection[str]) -> dict[str, bool]:
    """Return whether each of these Dags is paused; none for a Dag that Airflow does not know."""
    with create_session(scoped=False) as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dag_ids)))
        return {dag_id: bool(is_paused) for dag_id, is_paused in rows}
