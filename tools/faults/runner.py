"""Runs faults, one after the other, each in its own scene."""

import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from random import Random

from faults.catalogue import DEFAULT, Fault, Mode, NotPossibleError
from faults.results import Result
from faults.scene import Scene
from faults.site import Site

_scenes = count(1)


def run_fault(site: Site, fault: Fault, seed: int, mode: Mode = DEFAULT) -> Result:
    """Inject one fault, let everything recover, and check the result.

    Raises:
        Exception: whatever went wrong; what was started for the scene has been stopped.
    """
    try:
        with Scene(site, f"{fault.slug}-{next(_scenes)}", Random(seed), mode) as scene:
            fault.inject(scene)
            seconds = scene.recover()
            assert scene.injected, f"{fault.name} was not injected"
            return Result(fault.name, fault.slug, seed, scene.injected, seconds, scene.sampler.samples, scene.check())
    except NotPossibleError as reason:
        return Result(fault.name, fault.slug, seed, skipped=str(reason))
    finally:
        site.heal()


def run_all(
    site: Site,
    faults: Iterable[tuple[Fault, int, Mode]],
    say: Callable[[str], None],
    keep: Callable[[Sequence[Result]], object],
) -> list[Result]:
    """Run faults with their seeds and modes; one that fails is no reason to leave the others out.

    After each, `keep` gets all results so far: a run that is cut off has not been for nothing.
    """
    results: list[Result] = []
    for fault, seed, mode in faults:
        say(f"{fault.name} (seed {seed}{f', {mode}' if str(mode) else ''})")
        try:
            results.append(run_fault(site, fault, seed, mode))
        except Exception as failure:  # noqa: BLE001 - whatever it is, it belongs into this fault's line of the table
            results.append(Result(fault.name, fault.slug, seed, failure=_where(failure)))
        say(f"    {_outcome(results[-1])}")
        keep(results)
    return results


def _where(failure: Exception) -> str:
    *_, last = traceback.extract_tb(failure.__traceback__)
    return f"{type(failure).__name__}: {failure} ({Path(last.filename).name}:{last.lineno} {last.line})"


def _outcome(result: Result) -> str:
    if result.skipped:
        return f"skipped: {result.skipped}"
    if result.failure:
        return f"FAILED: {result.failure}"
    return f"{result.verdict}; injected {result.injected}, recovered in {result.seconds_to_recover:.1f} s"
