"""What the documents contain of Dags: the list of all, and the README's trigger with the ones to unpause for it."""

import re
from dataclasses import dataclass

from local_stack.stack import CHECKOUT
from support.documents import rows, section


@dataclass(frozen=True)
class ListedDag:
    """What the list contains of one Dag."""

    tasks: frozenset[str]
    schedule: str
    paused: bool


def listed_dags() -> dict[str, ListedDag]:
    """Return every Dag that the reference lists, by its id with its placeholders."""
    return {
        dag_id.strip("`"): ListedDag(frozenset(re.findall(r"`(\w+)`", tasks)), schedule, created == "paused")
        for dag_id, _, tasks, schedule, created in rows(section("Dags", on="reference/dags-and-tasks"))
    }


def created_paused() -> dict[str, bool]:
    """Return whether each of these Dags is created paused."""
    return {dag_id: listed.paused for dag_id, listed in listed_dags().items()}


def unpaused_by_readme() -> list[str]:
    """Return the ids of the Dags that the README unpauses for its trigger."""
    return re.findall(r"^airflow dags unpause (\S+)", _readme(), re.MULTILINE)


def readme_trigger() -> str:
    """Return the trigger file of the README."""
    (trigger,) = re.findall(r"^```yaml\n(.*?)^```", _readme(), re.DOTALL | re.MULTILINE)
    return str(trigger)


def _readme() -> str:
    return (CHECKOUT / "README.md").read_text(encoding="utf-8")
