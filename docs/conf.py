"""How Sphinx builds the documentation; `make docs` runs it."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

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
    "generated_parts",
]
exclude_patterns = ["examples", "schema", "_ext"]

_AIRFLOW = "https://airflow.apache.org/docs"
intersphinx_mapping = {
    name: (address, f"inventories/{name}.inv")
    for name, address in {
        "airflow-task-sdk": f"{_AIRFLOW}/task-sdk/stable",
        "airflow-providers-apache-spark": f"{_AIRFLOW}/apache-airflow-providers-apache-spark/6.3.4",
        "airflow-providers-standard": f"{_AIRFLOW}/apache-airflow-providers-standard/stable",
        "psycopg": "https://www.psycopg.org/psycopg3/docs",
        "python": "https://docs.python.org/3.11",
    }.items()
}
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# A signature may name what is internal, a docstring an error by its last name, and a bundle has a base of Airflow that
# Airflow documents nowhere.
nitpick_ignore_regex = [
    ("py:.*", r"workorders\.(core|kafka|airflow)\..*"),
    ("py:.*", r"\w+"),
    ("py:class", r"airflow\.dag_processing\..*"),
    ("py:class", r"collections\.abc\.Mapping\[str"),  # what Sphinx reads in a field whose default is made
]

myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 4

default_role = "code"
html_theme = "furo"
html_title = f"workorders {version}"
html_extra_path = ["schema"]
