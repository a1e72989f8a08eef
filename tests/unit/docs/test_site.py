"""The documentation builds without a warning: every link, reference and page of it is right."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.documents import DOCS


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    strictly = ["--quiet", "--nitpicky", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *strictly, str(DOCS), str(folder)], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


def test_the_site_builds_without_a_warning(site: Path) -> None:
    assert (site / "index.html").exists()


def test_every_field_of_a_file_has_an_anchor(site: Path) -> None:
    page = (site / "reference" / "kafka-trigger.html").read_text(encoding="utf-8")
    assert 'id="max-bytes"' in page
    assert 'id="spark-max-writers"' in page


def test_the_schemas_are_published_for_editors(site: Path) -> None:
    assert (site / "kafka-trigger.schema.json").exists()
