"""Which Dags begin at once in the local stack and in the containers."""

import pytest
from airflow.sdk import DAG

from airflow_local_settings import dag_policy


@pytest.mark.parametrize(("created_paused", "left"), [(True, None), (False, False)])
def test_airflows_setting_decides_for_a_source_and_all_others_begin_at_once(
    *, created_paused: bool, left: bool | None
) -> None:
    dag = DAG("orders", is_paused_upon_creation=created_paused)
    dag_policy(dag)
    assert dag.is_paused_upon_creation is left
