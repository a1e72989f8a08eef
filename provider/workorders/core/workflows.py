"""Workflows as code and as rows: their files, the decorator, and what the database knows of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from psycopg.types.json import Jsonb

from workorders.core.definitions.trigger import read_mapping, validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.exceptions import ConfigurationError, UnknownWorkflowError
from workorders.core.postgres.connection import Connection
from workorders.core.postgres.named_queries import load_queries

_QUERIES = load_queries("workorders.core", "sql/workflows.sql")

FOLDER_VARIABLE: Final = "WORKORDERS_WORKFLOWS"
"""Environment variable that names the folder of the workflow files."""
MODULES_VARIABLE: Final = "WORKORDERS_WORKFLOW_MODULES"
"""Environment variable that names the modules of the decorated functions, with commas between them."""

_MARK: Final = "__workorders_workflow__"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow as the database knows it."""

    id: int
    name: str
    definition: WorkflowDefinition | None
    """None when only a trigger has named it so far: work orders wait, and nothing can run them."""

    @property
    def concurrency(self) -> int | None:
        """Most runs at a time; None when there is no limit."""
        return self.definition.concurrency if self.definition else None


def workflow(**fields: Any) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Declare the decorated function as a workflow; its fields are those of a workflow file, without `callable`.

    The name is the function's own unless another is given. The function stays what it is, and can be called.

    Raises:
        ConfigurationError: a field is wrong, or the function does not stand at the top of a module.
    """

    def mark(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        place = f"{function.__module__}:{function.__qualname__}"
        if "." in function.__qualname__:
            raise ConfigurationError(f"{place}: a workflow is a function at the top of a module, and this one is not.")
        given = {"name": function.__name__, **fields, "callable": place}
        setattr(function, _MARK, parse(given, where=place))
        return function

    return mark


def parse(content: Mapping[str, Any], *, where: str) -> WorkflowDefinition:
    """Return the definition that some fields make.

    Raises:
        ConfigurationError: with a line for each wrong field.
    """
    return validate(content, WorkflowDefinition, where=where)


def load(path: Path) -> WorkflowDefinition:
    """Read one workflow file.

    Raises:
        ConfigurationError: the file is no YAML mapping, or a field is wrong.
    """
    return parse(
        read_mapping(path, form="a workflow file is a mapping with the fields name, callable, ..."), where=path.name
    )


def workflow_files(folder: Path) -> list[Path]:
    """Return the workflow files of a folder, by name.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    if not folder.is_dir():
        raise ConfigurationError(f"The folder of workflow files {folder} does not exist; create it or name another.")
    return sorted(path for path in folder.iterdir() if path.suffix in {".yaml", ".yml"})


def declared_in(module: str) -> list[WorkflowDefinition]:
    """Return the definitions of the functions that a module decorates, in their order there.

    Raises:
        ConfigurationError: the module cannot be imported.
    """
    try:
        found = import_module(module)
    except Exception as error:  # whatever a module does wrong while it is imported is a mistake in the configuration
        raise ConfigurationError(f"{module}: this module of workflows cannot be imported: {error!r}.") from error
    functions = (value for value in vars(found).values() if getattr(value, "__module__", None) == module)
    return [getattr(function, _MARK) for function in functions if hasattr(function, _MARK)]


def register(connection: Connection, definition: WorkflowDefinition) -> Workflow:
    """Write a workflow's definition down, or bring the row up to date, and return the workflow with this definition.

    Not with the row's: another version of the deployment, or whoever may write the table, may have changed the row
    since, and a worker must run the callable that its own file names.
    """
    connection.execute(
        _QUERIES["upsert_workflow"],
        {
            "name": definition.name,
            "definition": Jsonb(definition.model_dump(mode="json")),
            "concurrency": definition.concurrency,
        },
    )
    return replace(find(connection, definition.name), definition=definition)


def find(connection: Connection, name: str) -> Workflow:
    """Return the workflow of that name.

    Raises:
        UnknownWorkflowError: there is none.
        ConfigurationError: a version of this package that knows other fields wrote the definition.
    """
    row = connection.execute(_QUERIES["find_workflow"], {"name": name}).fetchone()
    if row is None:
        raise UnknownWorkflowError(f"No workflow {name} is registered here yet; see `workorders workflows list`.")
    return _workflow(*row)


def find_all(connection: Connection) -> list[Workflow]:
    """Return all workflows by name."""
    return [_workflow(*row) for row in connection.execute(_QUERIES["find_workflows"])]


def _workflow(id_: int, name: str, definition: Mapping[str, Any]) -> Workflow:
    where = f"Workflow {name} in the database"
    return Workflow(id_, name, parse(definition, where=where) if definition else None)
