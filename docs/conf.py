"""How Sphinx builds the documentation; `make docs` runs it."""

from importlib.metadata import version as installed_version

project = "airflow-provider-workorders"
author = "The workorders contributors"
copyright = author
release = version = installed_version("airflow-provider-workorders")

extensions = ["myst_parser"]
exclude_patterns = ["examples", "schema", "_ext"]

myst_heading_anchors = 4

html_theme = "furo"
html_title = f"workorders {version}"
html_extra_path = ["schema"]
