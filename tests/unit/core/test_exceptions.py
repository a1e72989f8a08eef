"""An error is one line wherever it is printed, and ends with the code under which the reference explains it."""

from collections import Counter

from support.operators import subclasses
from workorders.core.exceptions import ConfigurationError, WorkOrdersError, one_line


class CodedError(WorkOrdersError):
    error_code = "WO-CODED"


class OuterError(WorkOrdersError):
    error_code = "WO-OUTER"


def test_the_code_ends_the_text() -> None:
    assert str(CodedError("Nothing was done.")) == "Nothing was done. [WO-CODED]"


def test_an_error_without_a_code_is_its_text() -> None:
    assert str(ConfigurationError("a.yaml: wrong.")) == "a.yaml: wrong."


def test_an_error_that_repeats_another_one_keeps_the_code_of_the_cause() -> None:
    assert str(OuterError(f"Trigger a: {CodedError('No.')} Next try in 2 s.")) == (
        "Trigger a: No. [WO-CODED] Next try in 2 s."
    )


def test_several_lines_with_indents_become_one_line() -> None:
    assert one_line(WorkOrdersError("connection failed:\n\tIs the server\n  running? ")) == (
        "connection failed: Is the server running?"
    )


def test_no_two_errors_have_one_name_so_that_who_catches_one_misses_none() -> None:
    names = Counter(kind.__name__ for kind in subclasses(WorkOrdersError))
    assert [name for name, count in names.items() if count > 1] == []
