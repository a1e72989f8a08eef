"""What the documents say of Dags: the list of all, and the README's trigger with the ones to unpause for it."""

import re

from local_stack.stack import CHECKOUT
from support.documents import section


def created_paused() -> dict[str, bool]:
    """Return every Dag that the documents list, by its id with its placeholders, and whether it is created paused."""
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (paused|unpaused) \|$", section("Dags"), re.MULTILINE)
    return {dag_id: state == "paused" for dag_id, state in rows}


def unpaused_by_readme() -> list[str]:
    """Return the ids of the Dags that the README says to unpause for its trigger."""
    return re.findall(r"^airflow dags unpause (\S+)", _readme(), re.MULTILINE)


def readme_trigger() -> str:
    """Return the trigger file of the README."""
    (trigger,) = re.findall(r"^```yaml\n(.*?)^```", _readme(), re.DOTALL | re.MULTILINE)
    return str(trigger)


def _readme() -> str:
    return (CHECKOUT / "README.md").read_text(encoding="utf-8")
