"""Takes known secrets out of what a run returns, and leaves it the JSON that it is."""

from collections.abc import Callable
from typing import Any, Final

from workorders.core.worker import json_values
from workorders.core.worker.exceptions import InputUnreadableError
from workorders.core.worker.secret_masking import MASK

_WHOLE: Final = json_values.dumps(MASK)


def masked(output: bytes, mask: Callable[[str], str]) -> bytes:
    """Return an output without secrets: in its strings and its names, and where a number is one.

    Not in its JSON text, for a secret may begin in one value and end in another, or be part of a number, and what is
    left were no JSON. An output that is nested too deep to be looked through is masked as a whole.

    Args:
        output: JSON text as `values.dumps` makes it.
        mask: takes the known secrets out of a text.
    """
    text = output.decode()
    # Without a backslash every string stands in the text as it is, so that a look at the text is enough. With one, it
    # may stand there in a form that nobody would know.
    if "\\" not in text and mask(text) == text:
        return output
    try:
        return json_values.dumps(_masked(json_values.loads(output), mask))
    except (InputUnreadableError, RecursionError):
        return _WHOLE


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {mask(name): _masked(content, mask) for name, content in value.items()}
    if isinstance(value, list):
        return [_masked(content, mask) for content in value]
    if isinstance(value, int | float) and mask(str(value)) == MASK:
        return MASK
    return value
