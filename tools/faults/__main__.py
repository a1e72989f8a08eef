"""`python -m faults [NAME ...]`: inject faults, check the results, print the table, write it as JSON."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import SystemRandom

from rich.console import Console

from faults import whole_way
from faults.cases import FAULTS
from faults.catalogue import Mode
from faults.results import FOLDER, Result, show, with_earlier, write
from faults.runner import run_all
from faults.site import Site
from support import measured

_WIDTH = 160


def main() -> int:
    """Run faults; 1 when a promise was broken or a fault could not be injected."""
    by_slug = {fault.slug: fault for fault in FAULTS.values()}
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which, as --list has them; all if not given")
    parser.add_argument("--list", action="store_true", help="list the faults, and inject none")
    parser.add_argument("--short", action="store_true", help="the part that `make test-all` has")
    parser.add_argument("--seed", type=int, help="repeats a run; drawn and printed if not given")
    parser.add_argument(
        "--minutes", type=float, help="let messages go the whole way to another topic, and draw faults for so long"
    )
    parser.add_argument("--server", action="store_true", help="make attempts on a Spark Connect server")
    parser.add_argument("--grown", action="store_true", help="meet workers in a later round of a growing batch")
    parser.add_argument("--add", action="store_true", help="keep what the last table has of other faults")
    given = parser.parse_args()
    if unknown := set(given.names) - set(by_slug):
        parser.error(f"there is no fault {', '.join(sorted(unknown))}; --list has them all")
    console = Console(width=_WIDTH, highlight=False)
    chosen = [by_slug[name] for name in given.names] or [
        fault for fault in FAULTS.values() if fault.short or not given.short
    ]
    if given.list:
        for fault in chosen:
            console.print(f"{fault.slug:40} {fault.name}{' (short)' if fault.short else ''}")
        return 0
    seed = SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    console.print(f"Seed {seed}.")
    mode = Mode(given.server, given.grown)
    if given.minutes:
        return _go_the_whole_way(console, seed, given.minutes, on_server=given.server)
    name = "-".join(filter(None, ["faults", str(mode)]))

    def keep(results: Sequence[Result]) -> Path:
        table = with_earlier(results, name=name, order=[*by_slug]) if given.add else results
        return write(table, name=name, seed=seed)

    with Site() as site:
        results = run_all(
            site, ((fault, seed, mode) for fault in chosen), lambda line: console.print(line, style="dim"), keep
        )
        site.stack.keep_logs = not all(result.kept for result in results)
    show(console, results)
    console.print(f"Seed {seed}. The table is in {keep(results)}.")
    return 0 if all(result.kept for result in results) else 1


def _go_the_whole_way(console: Console, seed: int, minutes: float, *, on_server: bool) -> int:
    with Site() as site:
        site.stack.keep_logs = True
        outcome = whole_way.run(site, seed, minutes, console.print, on_server=on_server)
        site.stack.keep_logs = not outcome.kept
    console.print(f"Work orders: {outcome.work_orders}\nRows: {outcome.rows}\nMessages: {outcome.messages}")
    path = measured.write(
        FOLDER / f"whole-way-{seed}.json", {"seed": seed, "minutes": minutes}, **asdict(outcome), kept=outcome.kept
    )
    console.print(f"Seed {seed}. The counts are in {path}.")
    return 0 if outcome.kept else 1


if __name__ == "__main__":
    sys.exit(main())
