"""Finished steps, as `runs show` and `work-orders show` print them."""

from collections.abc import Sequence
from typing import Any, Final

import orjson

from workorders.cli.output import Column, json_object, print_table
from workorders.core.steps.history import Step
from workorders.visible_text import safe

_RESULT_CHARACTERS: Final = 80

_COLUMNS: Sequence[Column[Step]] = (
    Column("step", lambda step: step.name),
    Column("kind", lambda step: step.kind),
    Column("generation", lambda step: step.generation, number=True),
    Column("run", lambda step: step.attempt, number=True),
    Column("finished", lambda step: step.finished_at),
    Column("result", lambda step: step.result[:_RESULT_CHARACTERS]),
)


def print_steps(steps: Sequence[Step], sentence: str | None = None) -> None:
    """Print finished steps with the beginnings of their results, and a sentence about them."""
    if steps:
        print("\nfinished steps:")
        print_table(_COLUMNS, steps)
    if sentence:
        print(f"\n{safe(sentence)}")


def steps_json(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return finished steps with their whole results."""
    return [json_object(step) | {"result": orjson.Fragment(step.result)} for step in steps]
