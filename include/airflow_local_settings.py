"""Airflow imports this module where `include` is on the path: in the local stack and in the containers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG

__all__ = ["dag_policy"]


def dag_policy(dag: "DAG") -> None:
    """Let `[core] dags_are_paused_at_creation` decide for a source, too: in these stacks, all begin at once."""
    if dag.is_paused_upon_creation:
        dag.is_paused_upon_creation = None
