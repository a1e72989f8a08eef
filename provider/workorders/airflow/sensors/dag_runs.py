"""The sensor of workflows that run a Dag: it waits for runs to start, and for Dag runs to end."""

from workorders.airflow.sensors.runs import WaitForRunsSensor
from workorders.airflow.triggers.dag_runs import WaitForDagRunsTrigger


class WaitForDagRunsSensor(WaitForRunsSensor):
    """Waits until a workflow has runs that can be claimed, or a Dag run of it has ended or lasted too long.

    See `WaitForRunsSensor`.
    """

    trigger_class = WaitForDagRunsTrigger
