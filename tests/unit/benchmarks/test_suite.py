"""What fails has no figure, and loses none of the others."""

from typing import cast

from benchmarks.sizes import QUICK
from benchmarks.suite import Bench
from local_stack.stack import LocalStack


def new_bench(lines: list[str]) -> Bench:
    return Bench(cast("LocalStack", None), QUICK, lines.append)


def test_a_measurement_that_succeeds_is_returned() -> None:
    bench = new_bench([])
    assert bench.attempt("a peer", lambda: 5.0) == 5.0
    assert bench.failed == []


def test_a_measurement_that_fails_is_named_with_its_error_and_has_no_figure() -> None:
    lines: list[str] = []
    bench = new_bench(lines)
    assert bench.attempt("a peer", lambda: 1 / 0) is None
    assert bench.failed == ["a peer"]
    assert "a peer FAILED: division by zero" in lines
