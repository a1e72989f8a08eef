"""A decorated function whose decorator has a mistake."""

from typing import Any

from workorders import workflow


@workflow(concurency=1)
def wrong(_event: dict[str, Any], _context: object) -> None:
    return None
