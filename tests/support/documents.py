"""The documents as the tests read them: every page, wherever it lies, and the sections and tables in them."""

import re
from pathlib import Path

from local_stack.stack import CHECKOUT

DOCS = CHECKOUT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = CHECKOUT / "README.md"
OUTSIDE = [
    README,
    *(CHECKOUT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")),
    CHECKOUT / "tests" / "README.md",
    *sorted((CHECKOUT / "tools").rglob("README.md")),
]
"""What Sphinx does not build."""
DOCUMENTS = [*OUTSIDE, *PAGES]


def text_of(document: Path) -> str:
    """Return what a document contains."""
    return document.read_text(encoding="utf-8")


def prose(document: Path) -> str:
    """Return a document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text_of(document), flags=_FLAGS)


def name_of(document: Path) -> str:
    """Return the path of a document inside the checkout."""
    return document.relative_to(CHECKOUT).as_posix()


def page(name: str) -> str:
    """Return the text of the page with this path below docs/, without its suffix."""
    return text_of(DOCS / f"{name}.md")


def section(heading: str, *, on: str = "**/*") -> str:
    """Return what is under a heading, up to the next heading of its level; exactly one of the pages has it."""
    pattern = _SECTION.format(re.escape(heading))
    found = [match for path in DOCS.glob(f"{on}.md") for match in re.findall(pattern, text_of(path), _FLAGS)]
    assert len(found) == 1, f"{len(found)} pages have the heading {heading!r}"
    return str(found[0][1])


def anchor(heading: str) -> str:
    """Return the anchor that a heading gets: small letters, hyphens for spaces, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def blocks(document: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(document), _FLAGS)


def rows(table: str) -> list[list[str]]:
    """Return the cells of every row of a table whose first cell begins with code."""
    return [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines() if line[:3] == "| `"
    ]


def first_cells(table: str) -> list[str]:
    """Return the first cell of every row of a table, for rows whose first cell begins with code."""
    return [row[0] for row in rows(table)]


_SECTION = r"^(#+) {}\n(.*?)(?=^\1 |\Z)"
_FLAGS = re.DOTALL | re.MULTILINE
