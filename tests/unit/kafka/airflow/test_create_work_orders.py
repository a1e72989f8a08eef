from pathlib import Path
from typing import Any

import pytest

from support.definitions import define
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.spark.kafka_source import EXCLUDED, package


def operator(**arguments: Any) -> CreateWorkOrdersOperator:
    return CreateWorkOrdersOperator(task_id="create_work_orders", definition=define("orders"), **arguments)


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKORDERS_SPARK_APPS", "WORKORDERS_SPARK_JARS"):
        monkeypatch.delenv(name, raising=False)


def test_the_application_is_the_packages_own() -> None:
    assert Path(operator().application).name == "create_work_orders.py"
    assert Path(operator().application).is_file()


def test_a_folder_of_the_environment_has_another_application(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_SPARK_APPS", "/opt/apps")
    assert operator().application == "/opt/apps/create_work_orders.py"


def test_without_jars_spark_resolves_its_kafka_source() -> None:
    made = operator()
    assert (made.jars, made.packages, made.exclude_packages) == (None, package(), EXCLUDED)


def test_named_jars_are_all_that_spark_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_SPARK_JARS", "/jars/a.jar,/jars/b.jar")
    made = operator()
    assert (made.jars, made.packages) == ("/jars/a.jar,/jars/b.jar", None)
    assert (operator(jars="/mine.jar").jars, operator(jars="/mine.jar").packages) == ("/mine.jar", None)


@pytest.mark.parametrize("named", [{"packages": "mine:source:1"}, {"conf": {"spark.jars.packages": "mine:source:1"}}])
def test_a_package_of_the_users_own_is_not_replaced(named: dict[str, Any]) -> None:
    assert operator(**named).packages == named.get("packages")
