"""Who installs a provider uses the constraints of their Airflow, so each version there must be one that we take."""

from pathlib import Path

import pytest

from support.airflow_releases import RELEASED, compile_requirements, constraints_of_the_day, our_requirements

OWN = Path(__file__).with_name("airflow_constraints")
"""By release, those lines of Airflow's own constraints for Python 3.12 that concern us."""


def resolve(release: str, python: str, constraints: Path, file: Path) -> set[str]:
    """Return what comes by the constraints of a release, with the PySpark of the client that they have."""
    pinned = dict(line.split("==") for line in constraints.read_text(encoding="utf-8").splitlines())
    spark = pinned["pyspark-client"]
    wanted = [*our_requirements(), f"apache-airflow=={release}", f"pyspark=={spark}"]
    compile_requirements(wanted, python, file, "--constraint", constraints)
    return set(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize(
    "release", [*(pytest.param(old, marks=pytest.mark.long) for old in ("3.2.1", "3.3.0")), "3.3.1"]
)
def test_airflows_own_constraints_let_the_package_in(release: str, tmp_path: Path) -> None:
    found = resolve(release, "3.12", OWN / f"{release}.txt", tmp_path / "found.txt")
    assert f"apache-airflow=={release}" in found


@pytest.mark.long
@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
@pytest.mark.parametrize("release", RELEASED)
def test_the_versions_of_a_releases_day_let_the_package_in(release: str, python: str, tmp_path: Path) -> None:
    constraints = constraints_of_the_day(release, python, tmp_path / "constraints.txt")
    found = resolve(release, python, constraints, tmp_path / "found.txt")
    assert f"apache-airflow=={release}" in found
