"""The parts of the reference that are written from the code into the committed pages; `make docs-reference` runs it.

A page marks the place of such a part, and what it has: `<!-- generated: fields kafka -->` ... `<!-- end -->`.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from command_reference import command_reference
from field_reference import field_reference
from metric_reference import metric_reference
from python_reference import python_reference
from table_reference import table_reference

PARTS: Final[dict[str, Callable[..., str]]] = {
    "commands": command_reference,
    "fields": field_reference,
    "metrics": metric_reference,
    "python": python_reference,
    "tables": table_reference,
}
"""What writes each part; it is called with the words after the part's name."""

_PART: Final = re.compile(r"^(<!-- generated: (\S+)((?: \S+)*) -->\n).*?^(<!-- end -->)$", re.MULTILINE | re.DOTALL)


def expand(text: str) -> str:
    """Return a page's text with its generated parts as the code has them now."""
    return _PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]](*part[3].split())}\n\n{part[4]}", text)


def main() -> None:
    """Write the generated parts into the pages."""
    for page in sorted(Path(__file__).parents[1].rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (expanded := expand(text)) != text:
            page.write_text(expanded, encoding="utf-8")


if __name__ == "__main__":
    main()
