"""The list of Dags in the documents, and the ones that the README unpauses."""

import re

from local_stack.stack import CHECKOUT


def created_paused() -> dict[str, bool]:
    """Return every Dag that the documents list, by its id with its placeholders, and whether it is created paused."""
    page = (CHECKOUT / "docs" / "operating.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|.*\| (paused|unpaused) \|$", page, re.MULTILINE)
    return {dag_id: state == "paused" for dag_id, state in rows}


def unpaused_by_readme() -> list[str]:
    """Return the ids of the Dags that the README says to unpause for its trigger."""
    readme = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^airflow dags unpause (\S+)", readme, re.MULTILINE)
