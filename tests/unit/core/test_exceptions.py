"""An error is one line wherever it is said."""

from workorders.core.exceptions import WorkOrdersError, one_line


def test_what_stands_on_several_lines_with_indents_becomes_one_line() -> None:
    assert one_line(WorkOrdersError("connection failed:\n\tIs the server\n  running? ")) == (
        "connection failed: Is the server running?"
    )
