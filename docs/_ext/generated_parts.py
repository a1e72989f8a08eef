"""A Sphinx extension: parts of the reference that are written from the code each time the site is built.

A page names such a part in a comment on a line of its own: `<!-- generated: fields kafka -->`.
"""

import re
from collections.abc import Callable
from typing import Any, Final

from command_reference import command_reference
from field_reference import field_reference
from metric_reference import metric_reference
from python_reference import format_docstring, name_as_documented, python_reference
from table_reference import table_reference

PARTS: Final[dict[str, Callable[..., str]]] = {
    "commands": command_reference,
    "fields": field_reference,
    "metrics": metric_reference,
    "python": python_reference,
    "tables": table_reference,
}
"""What writes each part; it is called with the words behind the part's name."""

_MARKER: Final = re.compile(r"^<!-- generated: (\S+)((?: \S+)*) -->$", re.MULTILINE)


def expand(text: str) -> str:
    """Return a page's text with the parts that it names."""
    return _MARKER.sub(lambda marker: PARTS[marker[1]](*marker[2].split()), text)


def _expand_source(_app: Any, _docname: str, source: list[str]) -> None:
    source[0] = expand(source[0])


def setup(app: Any) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", _expand_source)
    app.connect("autodoc-process-docstring", format_docstring)
    # Before intersphinx, which has the priority 500.
    app.connect("missing-reference", name_as_documented, priority=400)
    return {"parallel_read_safe": True}
