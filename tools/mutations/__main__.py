"""`python -m mutations [NAME ...]`: break the source on purpose, and see whether the named tests notice.

The tests run once without a mutation, where all must pass, and then once for each mutation, where all that it names
must fail. Exit code 1 when one does not; the results are written to build/mutations.json as well.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from local_stack.stack import CHECKOUT
from mutations.catalogue import MUTATIONS
from mutations.mutation import Mutation
from mutations.runner import Copy

RESULTS = CHECKOUT / "build" / "mutations.json"
_WIDTH = 160
_WORDS = {True: "fails", False: "PASSES", None: "DOES NOT RUN"}


def main() -> int:
    """Run the mutations; 1 when one survives, or a named test fails without it."""
    parser = argparse.ArgumentParser(prog="python -m mutations", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which; all if not given")
    given = parser.parse_args()
    by_name = {mutation.name: mutation for mutation in MUTATIONS}
    unknown = set(given.names) - set(by_name)
    if unknown:
        parser.error(f"there is no mutation {', '.join(sorted(unknown))}; there are {', '.join(by_name)}")
    chosen = [by_name[name] for name in given.names] or list(MUTATIONS)
    console = Console(width=_WIDTH, highlight=False)
    with tempfile.TemporaryDirectory(prefix="workorders-mutations-") as home:
        copy = Copy(Path(home) / "checkout")
        if broken := _failing_without(copy, chosen):
            console.print(f"Without any mutation these do not pass: {', '.join(broken)}")
            return 1
        results = {mutation.name: _results(console, copy, mutation) for mutation in chosen}
    _show(console, chosen, results)
    _write(chosen, results)
    survivors = [mutation.name for mutation in chosen if not _caught(results[mutation.name])]
    console.print(f"Survived: {', '.join(survivors)}" if survivors else f"All {len(chosen)} mutations are caught.")
    return 1 if survivors else 0


def _failing_without(copy: Copy, chosen: Sequence[Mutation]) -> list[str]:
    tests = sorted({test for mutation in chosen for test in mutation.tests})
    return [test for test, failed in copy.failed(tests).items() if failed is not False]


def _results(console: Console, copy: Copy, mutation: Mutation) -> dict[str, bool | None]:
    try:
        for change in mutation.changes:
            change.apply(copy.package)
        found = copy.failed(mutation.tests)
    finally:
        copy.restore()
    console.print(f"... {mutation.name}: {'caught' if _caught(found) else 'SURVIVED'}", style="dim")
    return found


def _caught(found: dict[str, bool | None]) -> bool:
    return all(found.values())


def _show(console: Console, chosen: Sequence[Mutation], results: dict[str, dict[str, bool | None]]) -> None:
    table = Table("mutation", "promise", "named tests", "caught", title="Deliberate breaks")
    for mutation in chosen:
        found = results[mutation.name]
        tests = "\n".join(f"{test.rpartition('::')[2]} {_WORDS[failed]}" for test, failed in found.items())
        table.add_row(mutation.name, str(mutation.promise), tests, "yes" if _caught(found) else "NO")
    console.print(table)


def _write(chosen: Sequence[Mutation], results: dict[str, dict[str, bool | None]]) -> None:
    RESULTS.parent.mkdir(exist_ok=True)
    written = [
        {
            "mutation": mutation.name,
            "promise": mutation.promise,
            "tests": {test: _WORDS[failed].lower() for test, failed in results[mutation.name].items()},
            "caught": _caught(results[mutation.name]),
        }
        for mutation in chosen
    ]
    RESULTS.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
