"""The rule that each trigger, and each workflow, has a name of its own."""

from workorders.core.exceptions import ConfigurationError


def require_unique_name(kind: str, name: str, source: str, taken: dict[str, str]) -> None:
    """Note that a source defines a name.

    Args:
        kind: what the sources define, in a word.
        name: of the definition.
        source: name of the file or module.
        taken: the source of each name so far.

    Raises:
        ConfigurationError: the name was defined before.
    """
    if name in taken:
        raise ConfigurationError(
            f"{source}: name: {kind} {name} is already defined in {taken[name]}; every {kind} needs a name of its own."
        )
    taken[name] = source
