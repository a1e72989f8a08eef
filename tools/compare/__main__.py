"""`python -m compare [NAME ...]`: put the same work and the same faults to several tools, and write the page."""

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from random import Random

from compare import page, results
from compare.case import Case
from compare.cases import FAULTS, Fault
from compare.peer import Peer
from compare.peers import PEERS
from compare.results import Result
from faults.catalogue import NotPossibleError
from faults.site import Site
from support.machine import machine

_MESSAGES = 2_000


def main() -> int:
    """Run the comparison; 1 if a case could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m compare", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults, all if not given")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[*PEERS], help="tools, all if not given")
    parser.add_argument("--list", action="store_true", help="list the faults, and inject none")
    parser.add_argument("--seed", type=int, default=30, help="of the instants that are drawn")
    parser.add_argument("--messages", type=int, default=_MESSAGES, help="of a case")
    parser.add_argument("--add", action="store_true", help="keep what the last table has of other cases")
    parser.add_argument("--lanes", type=int, default=3, help="how many tools are measured at the same time")
    given = parser.parse_args()
    if given.list:
        print(*(f"{slug:24} {fault.name}" for slug, fault in FAULTS.items()), sep="\n")
        return 0
    if unknown := set(given.names) - set(FAULTS):
        parser.error(f"there is no fault {', '.join(sorted(unknown))}; --list has them all")
    faults = [FAULTS[name] for name in given.names or FAULTS]
    found = results.read() if given.add else {}
    begun = time.monotonic()
    with ThreadPoolExecutor(given.lanes) as pool:
        lanes = [pool.submit(_lane, PEERS[peer], faults, given.seed, given.messages) for peer in given.peers]
        for lane in lanes:
            found |= {(result.peer, result.fault): result for result in lane.result()}
    ordered = [found[peer, fault] for fault in FAULTS for peer in PEERS if (peer, fault) in found]
    about: dict[str, object] = {
        "seed": given.seed,
        "messages": given.messages,
        "minutes": round((time.monotonic() - begun) / 60, 1),
        "conditions": _conditions(),
    }
    print(results.write(ordered, about))
    print(page.write(ordered, PEERS, about))
    return int(any(result.failure for result in ordered))


def _conditions() -> str:
    found = machine()
    return f"{found['cores']} cores of {found['processor']}, {found['memory_gib']} GiB, with other work"


def _lane(peer: Peer, faults: Sequence[Fault], seed: int, messages: int) -> list[Result]:
    """Inject faults into one tool, one after the other, on a stack of its own; what is wrong is reproduced."""
    found = []
    with Site(f"compare-{peer.slug}") as site:
        for fault in faults:
            result = _measure(site, peer, fault, seed, messages)
            if result.verdict is not None and not result.verdict.is_clean:
                result = replace(result, second=_measure(site, peer, fault, seed + 1, messages).cell)
            print(f"{peer.name}: {fault.name}: {result.shown} {result}", flush=True)
            found.append(result)
        site.stack.keep_logs = any(result.failure for result in found)
    return found


def _measure(site: Site, peer: Peer, fault: Fault, seed: int, messages: int) -> Result:
    begun = time.monotonic()
    try:
        with Case(site, peer, fault.slug, random=Random(seed), messages=messages) as case:
            fault.inject(case)
            verdict = case.settle()
            return Result(
                peer.slug,
                fault.slug,
                verdict,
                halted=case.halted,
                logged=case.logged,
                restarts=case.restarts,
                remedies=tuple(case.remedies),
                seconds=round(time.monotonic() - begun, 1),
            )
    except NotPossibleError as reason:
        return Result(peer.slug, fault.slug, skipped=str(reason))
    except Exception as error:  # noqa: BLE001 - it belongs into this case's cell, and the others are measured
        return Result(peer.slug, fault.slug, failure="".join(traceback.format_exception(error))[-1500:])


if __name__ == "__main__":
    sys.exit(main())
