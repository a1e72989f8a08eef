"""How Sphinx builds the documentation; `make docs` runs it."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

DOCS = Path(__file__).parent
sys.path.append(str(DOCS / "_ext"))

project = "airflow-provider-workorders"
author = "The workorders contributors"
copyright = author
release = version = installed_version("airflow-provider-workorders")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "generated_parts",
]
exclude_patterns = ["examples", "schema", "_ext"]
myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"workorders {version}"
html_extra_path = ["schema"]


def setup(app: Sphinx) -> None:
    """Show Mermaid diagrams as their text: GitHub draws them, and the site is built without a browser."""
    app.add_lexer("mermaid", TextLexer)
