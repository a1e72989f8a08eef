"""The list of faults, the documents and what `make test` takes of it agree."""

import re
from itertools import islice
from random import Random

from faults.cases import FAULTS
from faults.runner import draw
from support.documents import section


def test_every_fault_is_in_the_document_and_nothing_else() -> None:
    named = re.findall(r"^\| `([a-z-]+)` \|", section("The faults"), re.MULTILINE)
    assert sorted(named) == sorted(fault.slug for fault in FAULTS.values())


def test_a_part_of_every_kind_is_short() -> None:
    modules = {fault.inject.__module__ for fault in FAULTS.values() if fault.short}
    assert {
        f"faults.cases.{kind}" for kind in ("broker", "driver", "planner", "postgres", "topics", "worker")
    } <= modules


def test_a_seed_draws_the_same_faults_again() -> None:
    def drawn(seed: int) -> list[str]:
        random, faults = Random(seed), list(FAULTS.values())
        return [
            f"{fault.slug} {own} {mode}" for fault, own, mode in islice(iter(lambda: draw(faults, random), None), 10)
        ]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
