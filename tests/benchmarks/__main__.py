"""`python -m benchmarks [NAME ...]`: measure, print the tables, write them as JSON."""

import argparse
import sys

from rich.console import Console

from benchmarks.figures import FOLDER, Figure, show, write
from benchmarks.sizes import FULL, QUICK
from benchmarks.suite import BENCHMARKS, Bench
from local_stack.stack import LocalStack

_WIDTH = 160


def main() -> int:
    """Run the benchmarks; 1 when a bar was missed by a run in full."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)}; all if not given")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that all work, measures nothing")
    given = parser.parse_args()
    unknown = set(given.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    console = Console(width=_WIDTH, highlight=False)
    missed: list[Figure] = []
    with LocalStack(name="bench") as stack:
        bench = Bench(stack, QUICK if given.quick else FULL, lambda line: console.print(f"... {line}", style="dim"))
        for name in given.names or BENCHMARKS:
            figures = BENCHMARKS[name](bench)
            show(console, name, figures)
            write(name, figures, quick=given.quick)
            missed += [figure for figure in figures if figure.met is False]
    console.print(f"The figures are in {FOLDER}.")
    if given.quick:
        return 0
    for figure in missed:
        console.print(f"Missed: {figure.name} is {figure.ratio or figure.value:.2f} where {figure.bar} was wanted.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
