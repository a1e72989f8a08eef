"""What is kept of what a run returned."""

from typing import Any

from workorders.core.worker import json_values
from workorders.core.worker.exceptions import OutputTooLargeError


def kept(returned: Any, output_bytes: int) -> bytes | None:
    """Return the JSON text that is kept of what a run returned; None when it returned nothing.

    Raises:
        OutputTooLargeError: it has more than so many bytes.
        TypeError: JSON has no such value.
        ValueError: it holds what jsonb does not.
    """
    if returned is None:
        return None
    output = json_values.dumps(returned)
    if len(output) > output_bytes:
        raise OutputTooLargeError(
            f"The output has {len(output)} bytes, more than output_bytes ({output_bytes}) of the workflow."
        )
    return output
