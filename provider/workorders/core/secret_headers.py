"""Which headers of a request or a message carry a secret, judged by their names."""

import re
from typing import Final

# "author" is no secret; "authorization" is.
_SECRET: Final = re.compile(
    r"auth(?!or(?!i))|cookie|token|secret|password|passwd|signature|credential|api-?key|session"
)


def carries_a_secret(header: str) -> bool:
    """Tell whether the name of a header says that its value is a secret; what is kept is shown to many people."""
    return _SECRET.search(header.lower()) is not None
