"""A decorated function that another module imports."""

from typing import Any

from workorders import workflow


@workflow
def borrowed(_event: dict[str, Any], _context: object) -> None:
    return None
