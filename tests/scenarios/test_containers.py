"""`make containers`: docker-compose.yaml as a whole: the demo, and who may do what, in its containers."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from demo import single_messages
from demo.checks import TRIGGERS, Size, check
from local_stack.waiting import wait_until
from support.compose_stack import ONCE, ComposeStack
from support.docker_daemon import docker_daemon

pytestmark = [pytest.mark.long, pytest.mark.timeout(5400)]

SECONDS = 600.0
SIZE = Size(messages=4000, seconds=8.0, single=2)
OURS = ("api-server", "scheduler", "spark-connect", "dag-processor", "triggerer")
UNCOMPILED = """
import importlib.util, pathlib, sysconfig
for path in pathlib.Path(sysconfig.get_path("purelib")).rglob("*.py"):
    if not pathlib.Path(importlib.util.cache_from_source(path)).exists():
        print(path)
"""


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeStack]:
    """The containers, of which all are well."""
    with (
        docker_daemon() as environment,
        TemporaryDirectory(prefix="workorders-workflows-") as workflows,
        single_messages.triggers_folder(TRIGGERS) as triggers,
    ):
        for folder in (Path(workflows), triggers):
            folder.chmod(0o755)  # the user in the containers is another one
        made = ComposeStack(environment, tmp_path_factory.mktemp("compose"), triggers, Path(workflows))
        try:
            made.build()
            made.up()
            assert_all_well(made)
            yield made
        finally:
            made.down(with_data=True)
            made.remove_stand_ins()


def assert_all_well(containers: ComposeStack) -> None:
    wait_until(lambda: all(map(containers.is_well, containers.services)), seconds=SECONDS)
    unwell = {name: containers.state(name) for name in containers.services if not containers.is_well(name)}
    assert unwell == {}, containers.compose("logs", "--tail", "40", *unwell)


def test_every_service_that_runs_has_a_health_check(containers: ComposeStack) -> None:
    assert [name for name in containers.services if "Health" not in containers.state(name)] == list(ONCE)


def test_the_demo_is_right(containers: ComposeStack) -> None:
    assert check(containers, containers.workflows, SIZE)


@pytest.mark.parametrize("service", OURS)
def test_no_process_is_root_or_has_a_right_of_root(containers: ComposeStack, service: str) -> None:
    status = containers.execute(service, "sh", "-c", "cat /proc/[0-9]*/status")
    assert {line.split()[1] for line in status.splitlines() if line.startswith("Uid:")}.isdisjoint({"0"})
    assert {line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:")} == {"0" * 16}
    assert {line.split()[1] for line in status.splitlines() if line.startswith("NoNewPrivs:")} == {"1"}


@pytest.mark.parametrize("service", OURS)
def test_airflow_knows_the_passwords_of_its_own_role_and_of_the_writer_alone(
    containers: ComposeStack, service: str
) -> None:
    known = {name for name, value in containers.passwords.items() if value in containers.execute(service, "env")}
    own = {"AIRFLOW_FERNET_KEY", "AIRFLOW_SECRET_KEY", "AIRFLOW_JWT_SECRET", "AIRFLOW_DATABASE_PASSWORD"}
    assert known == own | {"WORKORDERS_WRITER_PASSWORD"}


def test_the_role_of_airflow_cannot_change_a_table(containers: ComposeStack) -> None:
    with psycopg.connect(containers.database_url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("CREATE TABLE workorders.more (id int)")


def test_all_that_is_installed_in_the_image_has_byte_code(containers: ComposeStack) -> None:
    assert containers.execute("api-server", "python", "-c", UNCOMPILED).splitlines() == []


def test_everything_is_there_again_after_the_containers_were_removed(containers: ComposeStack) -> None:
    with psycopg.connect(containers.database_url) as connection:
        before = connection.execute("SELECT count(*) FROM workorders.work_orders").fetchone()
    containers.down(with_data=False)
    containers.up()
    assert_all_well(containers)
    with psycopg.connect(containers.database_url) as connection:
        assert connection.execute("SELECT count(*) FROM workorders.work_orders").fetchone() == before
