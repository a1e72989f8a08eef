"""`make up LOGINS=1`: each login to Kafka, from a topic through the whole Airflow to work orders."""

import json
from collections.abc import Iterator

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.definition_files import write_definitions
from support.flow import Flow
from support.observed_trigger import ObservedTrigger, Place, some_events

pytestmark = pytest.mark.long

LOGINS = ("tls", "certificate", "plain", "scram_256", "scram_512", "oauth")
SUBMITTED = "oauth"
"""The login of the batch that is submitted; the others go to a running Spark, which costs less."""
NOWHERE = json.dumps({"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}})


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    definitions = (
        {
            "name": login,
            "type": "kafka",
            "workflow": "echo",
            "topics": [f"scenario.{login}"],
            "kafka_connection": f"kafka_{login}",
            "spark_connection": "spark_default" if login == SUBMITTED else "spark_connect_default",
        }
        for login in LOGINS
    )
    with LocalStack(
        airflow=True,
        logins=True,
        spark_connect=True,
        triggers_folder=write_definitions(tmp_path_factory.mktemp("logins"), *definitions),
        workflows_folder=tmp_path_factory.mktemp("workflows"),
        # A trigger that names no connection, and a command in a shell, reach no broker.
        environment={"AIRFLOW_CONN_KAFKA_DEFAULT": NOWHERE, "WORKORDERS_KAFKA": "{}"},
        name="logins",
    ) as running:
        yield running


@pytest.fixture(scope="module")
def produced(stack: LocalStack) -> dict[str, tuple[ObservedTrigger, list[Place]]]:
    """A topic for each login, whose messages are ingested at the same time."""
    found = {}
    for login in LOGINS:
        observed = ObservedTrigger.on_stack(stack, login, f"scenario.{login}")
        observed.create_topic(2)
        found[login] = observed, observed.produce(some_events(20, 2))
        # The end of a range is then no message, so that an executor looks there with its own client.
        observed.produce_and_abort(some_events(2, 2))
    return found


@pytest.mark.parametrize("login", LOGINS)
def test_messages_become_work_orders_by_each_login(
    stack: LocalStack, produced: dict[str, tuple[ObservedTrigger, list[Place]]], login: str
) -> None:
    observed, places = produced[login]
    api = AirflowApi(stack.airflow_url)
    Flow(api, observed).until_ingested(places)
    api.close()
