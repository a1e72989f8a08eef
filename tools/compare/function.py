"""What functions of the tools do with a message, in any environment: it imports nothing that one of them lacks."""

import json


def as_object(value: bytes | None) -> str:
    """Return the text of a message that is a JSON object.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        raise ValueError("The message is not JSON: it has no value.")
    try:
        text = value.decode()
        if isinstance(json.loads(text), dict):
            return text
    except ValueError as failure:
        raise ValueError("The message is not JSON.") from failure
    raise ValueError("The message is not an object.")
