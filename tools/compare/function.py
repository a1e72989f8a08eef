"""What functions of the tools do with a message, in any environment: it imports nothing that one of them lacks."""

import json


def as_object(value: bytes | None) -> str:
    """Return the text of a message that is a JSON object.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        raise ValueError("The message has no value.")
    text = value.decode()
    if not isinstance(json.loads(text), dict):
        raise ValueError("The message is not an object.")
    return text
