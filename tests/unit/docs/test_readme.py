"""The README and the page for an Airflow that exists: they are short, and show what `workorders init` writes."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from demo.comparison import Comparison
from demo.producer import Sent
from demo.replay import Replay
from demo.summary import Found, Offsets, figures
from local_stack.stack import CHECKOUT
from support.documents import DOCS, README, blocks, prose, text_of
from workorders.cli.init import EXAMPLE

FIRST_PAGE = DOCS / "getting-started" / "add-to-your-airflow.md"


def test_the_readme_has_at_most_700_words_code_included() -> None:
    lines = [line for line in text_of(README).splitlines() if not line.startswith(("```", "| ---"))]
    assert len(" ".join(lines).replace("|", " ").split()) <= 700


def test_a_package_index_shows_the_readme_without_addresses_that_lead_nowhere_there() -> None:
    command = [sys.executable, "setup.py", "--quiet", "--long-description"]
    shown = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    assert re.findall(r"\]\((?!https:)", shown) == []
    assert "\nSix commands add it." in shown
    assert prose(README).partition("\n![")[0] in shown


@pytest.mark.parametrize("document", [README, FIRST_PAGE], ids=["README", "first page"])
def test_a_document_shows_the_files_that_init_writes(document: Path) -> None:
    (trigger,) = blocks(document, "yaml")
    function = blocks(document, "python")[0]
    assert trigger == EXAMPLE["triggers/orders.yaml"]
    assert EXAMPLE["shipping.py"].endswith(function)


def test_the_output_of_the_demo_in_the_readme_has_lines_that_the_demo_prints() -> None:
    (output,) = (block for block in blocks(README, "text") if "expected" in block)
    shown = {line[:24].strip(): line[24:44].split() for line in output.splitlines()[1:] if line[43:44].isdigit()}
    sent = Sent(committed=24_000, in_transaction=1_200, aborted=600, flaws=Counter({"cut short": 69}))
    right = Comparison(missing=[], duplicates=[], strangers=[], altered=[], seconds=[])
    again = Replay(run_id="batch_1", note="", seconds=1.0, added=0, changed=False, table=[])
    found = Found(sent, 24_000, 24_600, [], right, Offsets({}, {}, {}), again)
    printed = {line.name.strip() for line in figures(found)}
    assert shown.keys() <= printed
    assert [name for name, (found, expected) in shown.items() if found != expected] == []


def test_the_tree_of_the_readme_has_files_that_init_writes() -> None:
    (tree,) = (block for block in blocks(README, "text") if "──" in block)
    named = re.findall(r"── (\S+)", tree)
    assert len(named) == 3
    assert set(named) <= EXAMPLE.keys()


def test_the_first_page_leads_to_a_log_by_six_commands_and_a_message() -> None:
    commands = blocks(FIRST_PAGE, "sh")
    send = next(number for number, command in enumerate(commands) if "kcat" in command)
    assert send == 6
    programs = re.compile(r"^(?:airflow|pip freeze|pip install|psql|python|workorders) ", re.MULTILINE)
    assert [len(programs.findall(command)) for command in commands[:send]] == [1] * send
