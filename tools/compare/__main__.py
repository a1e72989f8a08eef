"""`python -m compare [NAME ...]`: put the same work and the same faults to several tools, and write the page."""

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path
from random import Random
from threading import Lock

from compare import page, results, speed
from compare.case import Case
from compare.cases import FAULTS, Fault
from compare.peer import Peer
from compare.peers import PEERS
from compare.results import Result
from compare.speed import Speed
from faults.catalogue import NotPossibleError
from faults.site import Site
from support.machine import machine

_MESSAGES = 300
_SPEED = "speed"
_BRIEF = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A JVM that works for seconds starts with less CPU; where speed is measured, each tool's JVM is as it is."""
_IDLE = 0.5
"""Load average of a machine that has nothing else to do."""


class Comparison:
    """What is measured, kept after each case: a run that is cut off has not been for nothing."""

    def __init__(self, *, add: bool, seed: int, messages: int) -> None:
        self.faults, self.speeds = results.read() if add else ({}, {})
        self.seed = seed
        self.messages = messages
        #: Cases that could not be measured.
        self.failures = 0
        self._conditions = _conditions()
        self._lock = Lock()
        self._starting = Lock()

    def inject(self, peer: Peer, faults: Sequence[Fault]) -> None:
        """Inject faults into one tool, one after the other, on a separate stack; losses are reproduced."""
        with self._site(peer.slug, _BRIEF) as site:
            for fault in faults:
                result = self._case(site, peer, fault, self.seed)
                site.stack.keep_logs |= result is not None and result.is_damaged
                if result and result.is_doubted and (again := self._case(site, peer, fault, self.seed + 1)):
                    result = replace(result, second=again.cell, seconds=result.seconds + again.seconds)
                if result:
                    self._keep(result)

    def measure(self, peers: Sequence[Peer]) -> None:
        """Measure how fast the tools are, each alone on the machine."""
        with self._site(_SPEED, {}) as site:
            for peer in peers:
                try:
                    self._keep(speed.measure(site, peer))
                except Exception:  # noqa: BLE001 - the other tools are measured
                    self._failed(site, f"{peer.slug}, {_SPEED}")
                if site.stack.spark_connect.is_started:
                    site.stack.spark_connect.process.stop()

    @contextmanager
    def _site(self, name: str, variables: Mapping[str, str]) -> Iterator[Site]:
        site = Site(f"compare-{name}", variables)
        with ExitStack() as opened:
            with self._starting:  # Alembic, which makes the tables, knows one database in a process
                opened.enter_context(site)
            yield site

    def write(self) -> Path:
        """Write all results as JSON and into the page."""
        faults = [self.faults[fault, peer] for fault in FAULTS for peer in PEERS if (fault, peer) in self.faults]
        speeds = [self.speeds[peer] for peer in PEERS if peer in self.speeds]
        about = {
            "seed": self.seed,
            "conditions": self._conditions,
        }
        results.write(faults, speeds, about)
        return page.write(faults, speeds, PEERS, about)

    def _keep(self, found: Result | Speed) -> None:
        with self._lock:
            if isinstance(found, Speed):
                self.speeds[found.peer] = found
            else:
                self.faults[found.fault, found.peer] = found
                print(f"{found.peer}, {found.fault}: {found.shown}", flush=True)
            print(f"    {found}", flush=True)
            self.write()

    def _case(self, site: Site, peer: Peer, fault: Fault, seed: int) -> Result | None:
        begun = time.monotonic()
        try:
            with Case(site, peer, fault.slug, random=Random(seed), messages=self.messages) as case:
                fault.inject(case)
                return Result(
                    peer.slug,
                    fault.slug,
                    case.settle(),
                    halted=case.halted,
                    logged=case.logged,
                    restarts=case.restarts,
                    remedies=tuple(case.remedies),
                    seconds=round(time.monotonic() - begun, 1),
                )
        except NotPossibleError as reason:
            return Result(peer.slug, fault.slug, skipped=str(reason))
        except Exception:  # noqa: BLE001 - the other cases are measured
            self._failed(site, f"{peer.slug}, {fault.slug}")
            return None

    def _failed(self, site: Site, name: str) -> None:
        print(f"{name}: not measured\n{traceback.format_exc(limit=-4)}", flush=True)
        self.failures += 1
        site.stack.keep_logs = True


def main() -> int:
    """Run the comparison; 1 if a case could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m compare", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"faults, or {_SPEED}; all if not given")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=[*PEERS], help="tools, all if not given")
    parser.add_argument("--list", action="store_true", help="list the faults, and inject none")
    parser.add_argument("--page", action="store_true", help="write the page again, and measure nothing")
    parser.add_argument("--seed", type=int, default=30, help="of the instants that are drawn")
    parser.add_argument("--messages", type=int, default=_MESSAGES, help="of a case")
    parser.add_argument("--add", action="store_true", help="keep what the last table has of other cases")
    parser.add_argument("--lanes", type=int, default=8, help="how many tools meet faults at the same time")
    given = parser.parse_args()
    if given.list:
        print(*(f"{slug:24} {fault.name}" for slug, fault in FAULTS.items()), sep="\n")
        return 0
    if unknown := set(given.names) - {*FAULTS, _SPEED}:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}; --list has them all")
    comparison = Comparison(add=given.add or given.page, seed=given.seed, messages=given.messages)
    if given.page:
        print(comparison.write())
        return 0
    peers = [PEERS[slug] for slug in given.peers]
    seconds = Counter[str]()
    for result in results.read()[0].values():
        seconds[result.peer] += ceil(result.seconds)
    if faults := [fault for slug, fault in FAULTS.items() if slug in (given.names or FAULTS)]:
        with ThreadPoolExecutor(given.lanes) as pool:
            # Those that took longest the last time first: the last one would run alone.
            slowest = sorted(peers, key=lambda peer: -seconds[peer.slug])
            met = {peer: [fault for fault in faults if fault.slug in (peer.only or FAULTS)] for peer in slowest}
            for lane in [pool.submit(comparison.inject, peer, its) for peer, its in met.items() if its]:
                lane.result()
    if _SPEED in (given.names or [_SPEED]) and (fast := [peer for peer in peers if not peer.only]):
        comparison.measure(fast)
    print(comparison.write())
    return int(comparison.failures > 0)


def _conditions() -> str:
    found = machine()
    busy = "" if float(found["load_average"]) < _IDLE else ", busy with other work"
    return f"{found['cores']} cores of {found['processor']}, {found['memory_gib']} GiB{busy}"


if __name__ == "__main__":
    sys.exit(main())
