"""Holds the pages on symptoms to what a person can see: each error, alert, state, problem, and refusal leads to one."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from local_stack.stack import CHECKOUT
from support.dag_table import listed_dags
from support.documents import DOCS, anchor, page, section, text_of
from workorders.kafka.partitions import PartitionState
from workorders.monitoring import problems
from workorders.pages import app

FOLDER = DOCS / "how-to" / "symptoms"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
SYMPTOMS = {
    f"{path.name}#{anchor(heading)}": text
    for path in PAGES
    for heading, text in re.findall(r"^## (.+?)\n\n(.*?)(?=^## |\Z)", text_of(path), re.DOTALL | re.MULTILINE)
}
"""Each symptom: the text under its heading, by the link to it."""
STATES = "reference/states-and-reasons"
FINE = {"success", "topic deleted", "up to date"}
"""States with which no one has to do anything."""
_LINK = re.compile(r"\]\(([a-z]+\.md#[a-z-]+)\)")


def leads() -> Mapping[str, set[str]]:
    """Return where the index of the symptoms leads, by each text in code that it names; only to symptoms."""
    found: dict[str, set[str]] = {}
    for line in text_of(FOLDER / "index.md").splitlines():
        if line.startswith("| "):
            seen, _, see = line.strip("| ").partition(" | ")
            for name in re.findall(r"`([^`]+)`", seen):
                found.setdefault(name, set()).update(_LINK.findall(see))
    return found


def alerts() -> Iterator[tuple[str, str]]:
    """Give each alert with the symptom that it names."""
    rules = yaml.safe_load(text_of(CHECKOUT / "ops" / "prometheus" / "workorders.rules.yaml"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], Path(rule["annotations"]["runbook"]).name


def states() -> Iterator[str]:
    """Give each state of a work order, a run, and a partition."""
    for heading in ("Work orders", "Runs", "Partitions"):
        for line in section(heading, on=STATES).splitlines():
            cell = line.strip("| ").partition(" | ")[0]
            if line.startswith("| ") and cell not in {"state", "status", "---"}:
                yield from (state.strip("`").removesuffix(" 17") for state in cell.split(", "))


def problem_states() -> set[str]:
    """Return each state of what needs a person, on the pages, and in `status --check`."""
    written = re.findall(r'state="([^"]+)"', text_of(Path(problems.__file__)))
    attention = {str(state) for state in PartitionState if state.needs_attention}
    return {*written, *attention, problems.NOT_RUNNING, problems.NOT_POLLING, problems.STUCK, "failed"}


@pytest.mark.parametrize("code", re.findall(r"^## (WO-\S+)$", page("reference/errors"), re.MULTILINE))
def test_an_error_leads_to_a_symptom_that_names_it(code: str) -> None:
    (symptom,) = re.findall(r"^- Symptom: .*symptoms/(\S+)\)$", section(code, on="reference/errors"), re.M)
    assert code in re.findall(r"WO-[A-Z-]+[A-Z]", SYMPTOMS[symptom])


@pytest.mark.parametrize(("alert", "runbook"), alerts())
def test_an_alert_leads_to_the_symptom_that_it_names(alert: str, runbook: str) -> None:
    assert leads()[alert] == {runbook}


@pytest.mark.parametrize("state", sorted(set(states()) - FINE))
def test_a_state_leads_to_a_symptom(state: str) -> None:
    assert leads().get(state)


@pytest.mark.parametrize("state", sorted(problem_states()))
def test_what_needs_a_person_leads_to_a_symptom(state: str) -> None:
    assert leads().get(state)


def test_the_title_of_each_refusal_of_the_pages_is_at_a_symptom() -> None:
    titles = {*app.TITLES.values(), *re.findall(r'(?:\d|status), "([A-Z][^"]+)"', text_of(Path(app.__file__)))}
    assert {"Not allowed", "Database unavailable", "Too slow"} <= titles
    texts = "".join(SYMPTOMS.values())
    assert [title for title in sorted(titles) if f"*{title}*" not in texts] == []


def test_each_task_has_its_row_for_the_case_that_it_fails() -> None:
    named = set(re.findall(r"`([a-z_]+)`", SYMPTOMS["failed.md#a-task-fails"]))
    assert {task for dag in listed_dags().values() for task in dag.tasks} - named == set()


@pytest.mark.parametrize("symptom", SYMPTOMS)
def test_a_symptom_is_in_the_index_and_begins_with_what_you_see(symptom: str) -> None:
    assert f"]({symptom})" in text_of(FOLDER / "index.md")
    assert SYMPTOMS[symptom].startswith("You see ")
