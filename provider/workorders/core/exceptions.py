"""What can go wrong in the core, by name."""


class WorkOrdersError(Exception):
    """Base of every error that this package raises on purpose; its text is one plain sentence for people."""


def one_line(said: object) -> str:
    """Return what an error or somebody else's program says as one line, whatever lines and indents it has."""
    return " ".join(str(said).split())


class ConfigurationError(WorkOrdersError, ValueError):
    """A definition or a setting has a wrong form; the sentence names the file, the field and the right form."""


class UnknownTriggerError(WorkOrdersError, LookupError):
    """No definition or row has that trigger name."""


class SchemaError(WorkOrdersError):
    """The database's tables are not at the version that this package needs."""


class DuplicateItemsError(WorkOrdersError):
    """A source repeated a source key that it had promised to be new; nothing was created."""


class UnknownWorkflowError(WorkOrdersError, LookupError):
    """No workflow of that name is registered, or no trigger ever named it."""


class UnknownRunError(WorkOrdersError, LookupError):
    """No run has that id in the database."""
