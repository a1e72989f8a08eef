"""Holds the list of Dags to the code."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk import DAG

from support.dag_table import ListedDag, listed_dags, paused_for_readme
from workorders.airflow.dags.factories import trigger_dags
from workorders.airflow.dags.maintenance import maintenance_dags
from workorders.airflow.dags.workflows import workflow_dags
from workorders.kafka.airflow.outbox_relay import outbox_dags

_LINK = r"\]\(/plugin/workorders/workorders/([^)]*)\)"
SEQUENCE = "sequence: {key: 'body:/id', number: 'body:/n'}\n"
FILES = {
    "triggers/kafka.yaml": "name: orders\ntype: kafka\nworkflow: ship\ntopics: [orders]\n" + SEQUENCE,
    "triggers/cron.yaml": "name: orders\ntype: cron\nworkflow: ship\nschedule: '@daily'\n",
    "triggers/manual.yaml": "name: orders\ntype: manual\nworkflow: ship\n",
    "triggers/webhook.yaml": "name: orders\ntype: webhook\nworkflow: ship\nauthentication: public\n",
    "triggers/bad.yaml": "name: [",
    "workflows/ship.yaml": "name: ship\ncallable: shop.orders:ship\n",
    "workflows/bad.yaml": "name: [",
}


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, DAG]:
    """Every kind of Dag that the package makes."""
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    for path, text in FILES.items():
        # A separate folder for each: the name of a trigger is unique in its folder.
        file = tmp_path / Path(path).stem / path
        file.parent.mkdir(parents=True)
        file.write_text(text)
    (tmp_path / "outbox.yaml").write_text("shards: 1\n")
    made = maintenance_dags() | outbox_dags(tmp_path / "outbox.yaml")
    for path in FILES:
        folder = (tmp_path / Path(path).stem / path).parent
        made |= trigger_dags(folder) if folder.name == "triggers" else workflow_dags(folder)
    return made


@pytest.fixture
def listed() -> dict[str, ListedDag]:
    """The list, with names in the places of its placeholders."""
    found = {}
    for dag_id, dag in listed_dags().items():
        places = {"<name>": "ship" if dag_id == "<name>_runs" else "orders", "<file>": "bad", "<shard>": "0"}
        found[_filled(dag_id, places)] = dag
    return found


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        text = text.replace(place, name)
    return text


def test_the_list_names_every_dag_and_how_it_is_created(dags: dict[str, DAG], listed: dict[str, ListedDag]) -> None:
    created = {dag_id: dag.is_paused_upon_creation for dag_id, dag in dags.items()}
    assert {dag_id: listed_dag.paused for dag_id, listed_dag in listed.items()} == created


def test_airflow_shows_and_finds_every_dag_by_its_id(dags: dict[str, DAG]) -> None:
    assert [dag.dag_display_name for dag in dags.values()] == list(dags)


def test_only_what_takes_input_by_itself_is_created_paused(dags: dict[str, DAG]) -> None:
    paused = {dag_id for dag_id, dag in dags.items() if dag.is_paused_upon_creation}
    assert paused == {"orders_listener", "orders_cron"}


def test_the_text_of_every_dag_leads_to_its_page(dags: dict[str, DAG]) -> None:
    links = {dag_id: re.findall(_LINK, dag.doc_md or "") for dag_id, dag in dags.items()}
    of_trigger, search, overview, jobs = "work-orders?trigger=orders", "work-orders", "", "bulk"
    assert links == {
        "orders_listener": ["kafka/orders"],
        "orders_ingest": ["kafka/orders"],
        "orders_cron": [of_trigger],
        "orders_manual": [of_trigger],
        "ship_runs": ["workflows/ship"],
        "bad_refused": [],  # a file that defines nothing has no page
        "workorders_outbox_0": ["outbox"],
        "workorders_maintenance": [jobs, overview, search, f"{search}?state=parked"],
        "workorders_metrics": [overview],
    }
    assert not [dag_id for dag_id, dag in dags.items() if re.search(r"{\w+}", dag.doc_md or "")]


def test_the_list_names_the_tasks_of_every_dag(dags: dict[str, DAG], listed: dict[str, ListedDag]) -> None:
    listed["bad_refused"] = replace(listed["bad_refused"], tasks=frozenset({"read_workflow_file"}))
    assert {dag_id: listed_dag.tasks for dag_id, listed_dag in listed.items()} == {
        dag_id: frozenset(dag.task_ids) for dag_id, dag in dags.items()
    }


def test_the_list_has_the_schedule_of_every_dag(dags: dict[str, DAG], listed: dict[str, ListedDag]) -> None:
    fixed = {dag_id: listed_dag.schedule for dag_id, listed_dag in listed.items() if dag_id != "orders_cron"}
    for dag_id, schedule in fixed.items():
        found = dags[dag_id].schedule
        # Airflow keeps a cron expression as its timetable.
        written = getattr(found, "_expression", found)
        wanted = None if schedule.startswith("none") else schedule.strip("`")
        assert written == wanted, dag_id


def test_what_tests_unpause_for_the_readmes_trigger_is_what_is_created_paused(dags: dict[str, DAG]) -> None:
    needed = {dag_id for dag_id in dags if dag_id.startswith(("orders_", "ship_"))} - {"orders_cron"}
    assert set(paused_for_readme()) == {dag_id for dag_id in needed if dags[dag_id].is_paused_upon_creation}
