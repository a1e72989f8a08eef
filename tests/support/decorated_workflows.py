"""A module of decorated functions, as a user writes one."""

from typing import Any

from support.decorated_elsewhere import borrowed
from workorders import workflow

__all__ = ["borrowed", "first_steps", "plain", "second_steps"]


@workflow(ordering_key="key", retries={"max_retries": 2})
def first_steps(event: dict[str, Any], _context: object) -> dict[str, Any]:
    return {"seen": event}


@workflow(name="second", concurrency=1)
def second_steps(_event: dict[str, Any], _context: object) -> None:
    return None


def plain(_event: dict[str, Any], _context: object) -> None:
    return None
