"""Who knows which password among the containers."""

import re
from typing import Any

import pytest
import yaml

from local_stack.stack import CHECKOUT

COMPOSE: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yaml").read_text(encoding="utf-8"))
CONTAINERS = CHECKOUT / "include" / "containers"
# Without a default, which a port has.
SECRET = re.compile(r"\$\{([A-Z_]+)(?::\?|\})")


def knows(service: str) -> set[str]:
    return set(SECRET.findall(str(COMPOSE["services"][service].get("environment", {}))))


@pytest.mark.parametrize(
    ("secret", "services"),
    [
        ("POSTGRES_PASSWORD", {"postgres"}),
        ("WORKORDERS_OWNER_PASSWORD", {"postgres", "prepare"}),
        ("WORKORDERS_READER_PASSWORD", {"postgres"}),
    ],
)
def test_only_those_who_need_a_password_know_it(secret: str, services: set[str]) -> None:
    assert {service for service in COMPOSE["services"] if secret in knows(service)} == services


def test_airflow_has_the_writer_of_the_work_orders_and_a_role_of_its_own() -> None:
    for service in ("api-server", "scheduler", "dag-processor", "triggerer"):
        environment = COMPOSE["services"][service]["environment"]
        assert environment["AIRFLOW_CONN_WORKORDERS_DB"].startswith("postgresql://workorders_writer:")
        assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].startswith("postgresql+psycopg2://airflow:")
        assert "WORKORDERS_DATABASE_URL" not in environment
    # With it, the image would make that role its superuser.
    assert "POSTGRES_USER" not in COMPOSE["services"]["postgres"]["environment"]


def test_every_service_but_those_that_end_has_a_health_check() -> None:
    services = COMPOSE["services"]
    assert {name for name in services if "healthcheck" not in services[name]} == {"prepare"}


def test_every_password_has_its_line_in_the_example() -> None:
    example = re.findall(r"^([A-Z_]+)=$", (CONTAINERS / "example.env").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(example) == set().union(*(knows(service) for service in COMPOSE["services"]))
