"""The Dags of every trigger file, of any type."""

import os
from functools import partial
from pathlib import Path

from airflow.sdk import DAG

from workorders.airflow.dags.factories import collect
from workorders.core.definitions.loading import load_trigger, yaml_files
from workorders.core.definitions.trigger import TriggerDefinition, installed
from workorders.core.environment import TRIGGERS_VARIABLE
from workorders.core.exceptions import ConfigurationError

DAG_FACTORIES_GROUP = "workorders.dag_factories"
"""Entry point group in which a trigger type announces the function that makes its Dags from a definition."""


def trigger_folder(default: Path) -> Path:
    """Return the folder of trigger files: the environment's, or else the default."""
    return configured_trigger_folder() or default


def configured_trigger_folder() -> Path | None:
    """Return the folder of trigger files that the environment names; None when it names none."""
    stated = os.environ.get(TRIGGERS_VARIABLE)
    return Path(stated) if stated else None


def trigger_dags(folder: Path) -> dict[str, DAG]:
    """Return the Dags of every trigger file in a folder, by id.

    In place of a file with a mistake there is a Dag that fails and names the wrong field. Other triggers are not
    affected.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    return collect("trigger", {path: partial(_load, path) for path in yaml_files(folder, "trigger")}, _dags_of)


def _load(path: Path) -> list[TriggerDefinition]:
    return [load_trigger(path)]


def _dags_of(definition: TriggerDefinition) -> list[DAG]:
    dags = make_dags(definition)
    if definition.sequence is not None:
        from workorders.airflow.dags.gaps import gap_dag  # noqa: PLC0415 - most triggers need none of it

        dags.append(gap_dag(definition))
    return dags


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
