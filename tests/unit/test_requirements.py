"""Who installs a provider uses the constraints of their Airflow, so each version there must be one that we take."""

from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from local_stack.stack import CHECKOUT

CONSTRAINTS = Path(__file__).with_name("airflow_constraints")
"""By release, the lines of Airflow's own constraints that name what we name."""
EXTRAS = ("airflow", "kafka", "spark")


def requirements() -> list[Requirement]:
    """Return what the package needs where Airflow runs."""
    settings = ConfigParser()
    settings.read(CHECKOUT / "setup.cfg")
    extras = [settings["options.extras_require"][extra] for extra in EXTRAS]
    lines = "\n".join([settings["options"]["install_requires"], *extras]).splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("release", ["3.3.0", "3.3.1"])
def test_airflows_own_constraints_are_within_our_requirements(release: str) -> None:
    lines = (CONSTRAINTS / f"{release}.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines)
    versions = {canonicalize_name(name): version for name, version in pinned.items()}
    named = [one for one in requirements() if canonicalize_name(one.name) in versions]
    assert len(named) == len(versions) > 10
    assert [str(one) for one in named if versions[canonicalize_name(one.name)] not in one.specifier] == []
