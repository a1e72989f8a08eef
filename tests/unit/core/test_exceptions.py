"""An error is one line wherever it is said."""

from collections import Counter

from support.operators import subclasses
from workorders.core.exceptions import WorkOrdersError, one_line


def test_what_stands_on_several_lines_with_indents_becomes_one_line() -> None:
    assert one_line(WorkOrdersError("connection failed:\n\tIs the server\n  running? ")) == (
        "connection failed: Is the server running?"
    )


def test_no_two_errors_have_one_name_so_that_who_catches_one_misses_none() -> None:
    names = Counter(kind.__name__ for kind in subclasses(WorkOrdersError))
    assert [name for name, count in names.items() if count > 1] == []
