"""The mutations still fit the code, so that `make mutations` has something to break; it itself takes minutes."""

import re
import shutil
from pathlib import Path

import pytest

from local_stack.stack import CHECKOUT
from mutations.catalogue import MUTATIONS
from mutations.mutation import CONTRACTS, Change, Mutation, StaleMutationError

PACKAGE = CHECKOUT / "provider" / "workorders"

mutations = pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)


@mutations
def test_every_text_that_a_mutation_replaces_is_in_its_file_once(mutation: Mutation, tmp_path: Path) -> None:
    for file in {change.file for change in mutation.changes}:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / file, tmp_path / file)
    for change in mutation.changes:
        change.apply(tmp_path)
    for change in mutation.changes:
        changed = (tmp_path / change.file).read_text(encoding="utf-8")
        assert changed != (PACKAGE / change.file).read_text(encoding="utf-8")
        if change.file.endswith(".py"):
            compile(changed, change.file, "exec")


@mutations
def test_every_test_that_a_mutation_names_exists(mutation: Mutation) -> None:
    for test in mutation.tests:
        if test != CONTRACTS:
            file, _, name = test.partition("::")
            assert re.search(rf"^def {name}\(", (CHECKOUT / "tests" / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_names_are_given_once_and_every_promise_is_broken_by_one() -> None:
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    # 0 means the page on security, which is none of the twelve.
    assert {mutation.promise for mutation in MUTATIONS} == set(range(13))


@pytest.mark.parametrize("text", ["nothing of the kind", "twice twice"])
def test_a_mutation_that_does_not_fit_the_code_is_reported(tmp_path: Path, text: str) -> None:
    (tmp_path / "file.py").write_text(text, encoding="utf-8")
    with pytest.raises(StaleMutationError, match="not once: twice"):
        Change("file.py", "twice", "").apply(tmp_path)
