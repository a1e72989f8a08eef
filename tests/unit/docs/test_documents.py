"""Holds the documents to the code: trigger files, commands, targets, links and test names in them must be right."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from local_stack.stack import CHECKOUT
from support.documents import DOCUMENTS, OUTSIDE, anchor, blocks, name_of, page, prose, text_of
from workorders.cli.main import app
from workorders.core.definitions.loading import load_trigger
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.outbox.relay.definition import RelayDefinition

COMMANDS = typer.main.get_command(app)

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)


def lines_to_type(document: Path) -> Iterator[str]:
    """Give every command of a shell block, and every piece of code in a line of prose that may be one."""
    for language in ("sh", "bash", "console"):
        for block in blocks(document, language):
            joined = block.replace("\\\n", " ")
            yield from (line.split(" #")[0].removeprefix("$ ").strip() for line in joined.splitlines())
    yield from (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(document)))


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    return {anchor(heading) for heading in re.findall(r"^#+ +(.*)$", prose(document), re.MULTILINE)}


@documents
def test_every_trigger_file_in_a_document_is_right(document: Path, tmp_path: Path) -> None:
    for number, block in enumerate(blocks(document, "yaml")):
        content = yaml.safe_load(block)
        if isinstance(content, dict) and "workflow" in content:
            file = tmp_path / f"{number}.yaml"
            file.write_text(block, encoding="utf-8")
            assert load_trigger(file).name == content["name"]


@documents
def test_every_workflow_file_in_a_document_is_right(document: Path) -> None:
    for block in blocks(document, "yaml"):
        content = yaml.safe_load(block)
        if isinstance(content, dict) and "callable" in content:
            assert WorkflowDefinition.model_validate(content).name == content["name"]


@documents
def test_every_outbox_file_in_a_document_is_right(document: Path) -> None:
    for block in blocks(document, "yaml"):
        content = yaml.safe_load(block)
        if isinstance(content, dict) and content.keys() & {"shards", "checkpoint_topic"}:
            RelayDefinition.model_validate(content)


@documents
def test_every_target_of_make_exists(document: Path) -> None:
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    named = {line.split()[1] for line in lines_to_type(document) if re.match(r"make [a-z]", line)}
    assert named - targets == set()


@documents
def test_every_workorders_command_exists_with_its_options(document: Path) -> None:
    for line in lines_to_type(document):
        if re.match(r"workorders( [a-z-]+)+", line):
            assert_is_a_command(line)


def assert_is_a_command(line: str) -> None:
    """Follow the words of a line through groups and commands, and look its options up."""
    # Any: typer brings its own copy of click, or uses the installed one, as its version goes.
    command: Any = COMMANDS
    words = re.split(r"[|>;&]", line)[0].split()[1:]
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    group_called_alone = not words or words[0].startswith("-") or not getattr(command, "commands", {})
    assert group_called_alone, f"{line!r}: there is no command {words[0]!r}"
    options = {name for part in command.params for name in (*part.opts, *part.secondary_opts)} | {"--help"}
    given = {word.split("=")[0] for word in words if word.startswith("--")}
    assert given - options == set(), line


@pytest.mark.parametrize("document", OUTSIDE, ids=name_of)
def test_every_link_outside_the_site_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, fragment = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        if fragment:
            assert fragment in anchors(file), target


@documents
def test_every_test_that_is_named_exists(document: Path) -> None:
    there = "\n".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", text_of(document))
    assert [name for name in named if f"def {name}(" not in there] == []


@documents
def test_no_document_names_a_path_of_a_machine(document: Path) -> None:
    assert re.findall(r"(?<![\w.])/(?:home|root|work|Users|tmp)/\S*", text_of(document)) == []


def test_every_promise_names_a_test_or_the_contracts() -> None:
    evidence = text_of(CHECKOUT / "tests" / "README.md")
    named = re.findall(r"^\| (\d+)\. .* \| `(?:test_|make contracts)", evidence, re.MULTILINE)
    assert named == re.findall(r"^### (\d+)\. ", page("explanation/guarantees"), re.MULTILINE)
