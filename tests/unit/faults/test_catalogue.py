"""The list of faults, the documents and what `make test` takes of it agree."""

import re
from pathlib import Path

import faults
from faults.cases import FAULTS
from support.documents import DOCS, README, text_of


def test_the_documents_have_the_number_of_faults() -> None:
    readme = Path(faults.__file__).with_name("README.md")
    for document in (readme, README, DOCS / "explanation" / "guarantees.md"):
        assert re.findall(r"(\d+) faults", text_of(document)) == [str(len(FAULTS))]


def test_a_part_of_every_kind_is_short() -> None:
    modules = {fault.inject.__module__ for fault in FAULTS.values() if fault.short}
    assert {
        f"faults.cases.{kind}" for kind in ("broker", "driver", "planner", "postgres", "topics", "worker")
    } <= modules
