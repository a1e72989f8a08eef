"""Holds the reference to the code: the parts that are generated from it, and the tables that are written by hand."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from generated_parts import expand

from local_stack.stack import CHECKOUT
from support.documents import DOCS, first_cells, name_of, page, section, text_of
from workorders.core.definitions.workflow import RETRIED_STATES

PROVIDER = CHECKOUT / "provider"
TABLES = re.findall(r"^### `(\w+)`$", page("reference/database-schema"), re.MULTILINE)
GENERATED = [path for path in sorted(DOCS.rglob("*.md")) if "<!-- generated: " in text_of(path)]


def texts(*folders: Path) -> Iterator[str]:
    """Give the texts of all Python files in folders."""
    for folder in folders:
        yield from (path.read_text(encoding="utf-8") for path in folder.rglob("*.py"))


def codes(cells: list[str]) -> set[str]:
    """Return the pieces of code in some cells."""
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


def test_every_environment_variable_that_the_package_reads_is_on_its_page() -> None:
    read = {name for text in texts(PROVIDER, CHECKOUT / "dags") for name in re.findall(r"\bWORKORDERS_[A-Z_]+\b", text)}
    assert codes(first_cells(section("Environment variables", on="reference/connections"))) == read


def test_every_metric_that_a_task_counts_is_on_its_page() -> None:
    senders = [text for text in texts(PROVIDER) if re.search(r"\b[Ss]tats\.(gauge|incr|timing)\(", text)]
    sent = {name for text in senders for name in re.findall(r'"(workorders\.[\w.]+)"', text)}
    assert codes(first_cells(section("Events", on="reference/metrics"))) == sent


def test_every_refusal_of_a_webhook_is_on_the_page() -> None:
    calls = r'(?:RefusedError|TryAgainError)\(\s*(?:\d+,\s*)?"([a-z-]+)"'
    raised = {word for text in texts(PROVIDER / "workorders" / "webhook") for word in re.findall(calls, text)}
    named = set(re.findall(r"`([a-z-]+)`", section("Errors", on="reference/webhook-trigger")))
    assert raised - named == set()


def test_every_state_of_a_run_that_is_retried_is_explained() -> None:
    explained = codes(first_cells(section("Runs", on="reference/states-and-reasons")))
    assert set(RETRIED_STATES) <= explained


@pytest.mark.parametrize("path", GENERATED, ids=name_of)
def test_the_generated_parts_are_what_make_docs_reference_writes(path: Path) -> None:
    assert expand(text_of(path)) == text_of(path)


@pytest.mark.parametrize("module", ["workorders", "workorders.outbox", "workorders.exceptions"])
def test_every_public_name_is_on_the_page(module: str) -> None:
    documented = set(re.findall(r"^### `(\w+)`$", page("reference/python-api"), re.MULTILINE))
    assert set(import_module(module).__all__) <= documented


def test_every_table_that_may_be_queried_has_its_section_and_no_other() -> None:
    assert codes(first_cells(section("What you may query", on="reference/database-schema"))) == set(TABLES)
