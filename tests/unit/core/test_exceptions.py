"""An error's text has the code under which the reference explains it."""

from workorders.core.exceptions import ConfigurationError, WorkOrdersError


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
