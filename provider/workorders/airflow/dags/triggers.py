"""The Dags of every trigger file, of any type."""

from collections.abc import Iterable
from pathlib import Path

from airflow.sdk import DAG

from workorders.airflow.dags.factories import collect
from workorders.airflow.dags.parsing_context import finder
from workorders.core.definitions.loading import TRIGGERS, WORKFLOWS
from workorders.core.definitions.trigger import TriggerDefinition, installed
from workorders.core.environment import trigger_folder  # noqa: F401 - a public name of the package
from workorders.core.exceptions import ConfigurationError

DAG_FACTORIES_GROUP = "workorders.dag_factories"
"""Entry point group in which a trigger type announces the function that makes its Dags from a definition."""


def trigger_dags(folder: Path, workflows: Path | None = None, modules: Iterable[str] = ()) -> dict[str, DAG]:
    """Return the Dags of every trigger file in a folder, by id.

    In place of a file with a mistake there is a Dag that fails and names the wrong field. Other triggers are not
    affected. A trigger stores the definition of its workflow before it creates work orders, so that the ordering key
    and the limits apply to the first of them.

    Args:
        folder: the trigger files.
        workflows: the folder of the workflow files; by default the folder `workflows` next to it.
        modules: modules whose decorated functions are workflows.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    files = WORKFLOWS.files(workflows or folder.parent / "workflows", may_be_missing=True)
    find = finder([*files, *modules])
    return collect(
        TRIGGERS,
        TRIGGERS.files(folder),
        lambda definition: make_dags(definition.with_workflow(find(definition.workflow))),
    )


def make_dags(definition: TriggerDefinition) -> list[DAG]:
    """Return the Dags of one trigger, made by the factory of its type.

    Raises:
        ConfigurationError: the type has no factory.
    """
    factories = installed(DAG_FACTORIES_GROUP).select(name=definition.type)
    if not factories:
        raise ConfigurationError(
            f"Trigger {definition.name}: nothing makes Dags for the type {definition.type}, so it has none. Announce a "
            f"factory in the entry points workorders.dag_factories of the package that has the type."
        )
    made: list[DAG] = next(iter(factories)).load()(definition)
    return made
