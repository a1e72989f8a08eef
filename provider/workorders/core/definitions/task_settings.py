"""What a file sets in Airflow for single tasks of its Dags."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import Field

from workorders.core.definitions.fields import Definition, Text, Whole, expecting


class TaskSettings(Definition):
    """Airflow's settings of one task; what is not given has Airflow's default."""

    pool: Annotated[Text, expecting("the name of an Airflow pool")] | None = None
    """Airflow pool whose slots the task takes."""
    queue: Annotated[Text, expecting("the name of a queue of the executor")] | None = None
    """Queue of the executor, such as that of certain Celery workers."""
    executor: Annotated[Text, expecting("the name of one of Airflow's executors")] | None = None
    """Executor, if Airflow has several: a name or an import path of `[core] executor`."""
    executor_config: dict[str, Any] = Field(default_factory=dict)
    """Settings for the executor, such as `pod_template_file` for Kubernetes."""
    priority_weight: Annotated[Whole, expecting("a whole number")] | None = None
    """Priority among the tasks that wait for a slot; the higher, the sooner."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of an operator for what is given."""
        return self.model_dump(exclude_defaults=True)


def require_known_tasks(tasks: Mapping[str, TaskSettings], known: Collection[str]) -> None:
    """Make sure that settings are for tasks that exist."""
    unknown = sorted(set(tasks) - set(known))
    if unknown:
        form = f"some of the tasks {', '.join(known)}" if known else "no tasks, because there is no Dag"
        raise ValueError(f"expected {form}, got {', '.join(unknown)}.")
