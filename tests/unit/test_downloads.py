"""What the README's two commands download is checked by its hash, and what containers run is named by its digest."""

import re
from pathlib import Path

import pytest

from local_stack.stack import CHECKOUT

DOCKERFILE = CHECKOUT / "include" / "containers" / "Dockerfile"
INSTALLERS = [CHECKOUT / "Makefile", DOCKERFILE]
LOCK = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", INSTALLERS, ids=lambda file: file.name)
def test_everything_that_pip_and_uv_install_has_a_hash(file: Path) -> None:
    calls = re.findall(r"(?:pip|uv pip) (?:install|sync) [^\n\\]*", file.read_text(encoding="utf-8"))
    downloads = [call for call in calls if "--no-deps" not in call]
    assert len(downloads) == 2
    assert [call for call in downloads if "--require-hashes" not in call] == []


@pytest.mark.parametrize("file", INSTALLERS, ids=lambda file: file.name)
def test_no_build_fetches_a_build_back_end_of_its_own(file: Path) -> None:
    calls = re.findall(r"uv pip (?:install|sync) [^\n\\]*", file.read_text(encoding="utf-8"))
    assert len(calls) == 2
    assert [call for call in calls if "--no-build-isolation" not in call] == []


@pytest.mark.parametrize("name", ["setuptools", "uv"])
def test_the_lock_has_the_hashes_of_what_installs_and_builds(name: str) -> None:
    assert re.search(rf"^{name}==[\d.]+ \\\n    --hash=sha256:[0-9a-f]{{64}}", LOCK, re.MULTILINE)


def test_every_image_is_named_by_its_digest() -> None:
    compose = (CHECKOUT / "docker-compose.yaml").read_text(encoding="utf-8")
    images = re.findall(r"^\s*image: (?:&\S+ )?([^\s*]\S*)", compose, re.MULTILINE)
    images += re.findall(r"^FROM (\S+)", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)
    pulled = [image for image in images if image != "airflow-provider-workorders"]
    assert len(pulled) == 3
    assert [image for image in pulled if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []
