"""What the documents contain of Dags: the list of all, and the README's trigger with those that are created paused."""

import re
from dataclasses import dataclass

from support.documents import README, blocks, rows, section


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


def paused_for_readme() -> list[str]:
    """Return the ids of the Dags of the README's trigger and workflow that are created paused."""
    parts = {f"<name>_{part}": name for name, part in (("orders", "listener"), ("orders", "ingest"), ("ship", "runs"))}
    paused = [dag_id for dag_id, is_paused in created_paused().items() if is_paused and dag_id in parts]
    return [dag_id.replace("<name>", parts[dag_id]) for dag_id in paused]


def readme_trigger() -> str:
    """Return the trigger file of the README, from the first message on: tests send before anybody listens."""
    (trigger,) = blocks(README, "yaml")
    return trigger.replace("starting_offsets: latest", "starting_offsets: earliest")
