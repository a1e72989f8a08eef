"""`python -m benchmarks [NAME ...]`: measure, print the tables, write them as JSON."""

import argparse
import sys
from dataclasses import replace
from functools import partial
from typing import Any

from rich.console import Console

from benchmarks.figures import FOLDER, Figure, show, write
from benchmarks.sizes import FULL, QUICK, Sizes
from benchmarks.suite import BENCHMARKS, Bench
from local_stack.stack import LocalStack

_WIDTH = 200
_OPTIONS = {
    "--finished": ("claim_finished", int, "finished runs in the tables of `claim`"),
    "--waiting": ("claim_waiting", int, "waiting runs in the tables of `claim`"),
    "--seconds": ("steady_seconds", float, "seconds for which `steady` produces, for each engine and load"),
    "--busy": ("steady_busy", int, "busy processes next to which `steady` measures a second time; 0 for none"),
}
"""Fields of `Sizes` that a run may change: name, type, and meaning."""


def main() -> int:
    """Run the benchmarks; 1 when one failed, or when a bar was missed by a run in full."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)}; all if not given")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that all work, measures nothing")
    for option, (field, convert, meaning) in _OPTIONS.items():
        parser.add_argument(option, dest=field, type=convert, metavar="N", help=meaning)
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console = Console(width=_WIDTH, highlight=False)
    missed: list[Figure] = []
    with LocalStack(name="bench") as stack:
        bench = Bench(stack, _sizes(given), lambda line: console.print(f"... {line}", style="dim"))
        for name in given.names or BENCHMARKS:
            figures = bench.attempt(name, partial(BENCHMARKS[name], bench)) or []
            show(console, name, figures)
            write(name, figures, quick=given.quick)
            missed += [figure for figure in figures if figure.met is False]
    console.print(f"The figures are in {FOLDER}.")
    for what in bench.failed:
        console.print(f"Failed, without a figure: {what}.")
    if given.quick:
        return 1 if bench.failed else 0
    for figure in missed:
        console.print(f"Missed: {figure.name} is {figure.ratio or figure.value:.2f} where {figure.bar} was wanted.")
    return 1 if missed or bench.failed else 0


def _sizes(given: argparse.Namespace) -> Sizes:
    values = {field: getattr(given, field) for field, _, _ in _OPTIONS.values()}
    changes: dict[str, Any] = {field: value for field, value in values.items() if value is not None}
    return replace(QUICK if given.quick else FULL, **changes)


if __name__ == "__main__":
    sys.exit(main())
