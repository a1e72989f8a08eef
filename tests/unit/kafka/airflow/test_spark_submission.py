"""What is submitted to a cluster, to the letter, and which engines are loaded; no test has a YARN or a Kubernetes."""

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks import spark_submit
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators import spark_submit as operators_spark_submit
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException

from support.definitions import define
from support.spark_submit import replace_spark_submit
from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator
from workorders.kafka.airflow.dags import make_dags
from workorders.kafka.airflow.spark_submission import environment_of_driver, load_engine
from workorders.kafka.client.secrets import JobSecrets
from workorders.kafka.spark.installed_package import package_archive

SPARK_SUBMIT = str(Path(sys.executable).with_name("spark-submit"))
SECRETS = JobSecrets("postgresql://ann:hunter2@db/orders", {"sasl.password": "hunter2"})
ATTEMPT: Any = SimpleNamespace(batch_id=7, epoch=1, secrets=SECRETS)
REGISTRY = {"basic.auth.user.info": "ann:hunter2"}
YARN_FILES = {
    "spark.yarn.appMasterEnv.WORKORDERS_DATABASE_URL_FILE": "/etc/workorders/url",
    "spark.yarn.appMasterEnv.WORKORDERS_KAFKA_FILE": "/etc/workorders/kafka.json",
}
KUBERNETES_FILES = {
    "spark.kubernetes.driver.secrets.workorders": "/etc/workorders",
    "spark.kubernetes.driverEnv.WORKORDERS_DATABASE_URL_FILE": "/etc/workorders/url",
    "spark.kubernetes.driverEnv.WORKORDERS_KAFKA_FILE": "/etc/workorders/kafka.json",
}
KUBERNETES_KEYS = {
    "spark.kubernetes.driver.secretKeyRef.WORKORDERS_DATABASE_URL": "workorders:url",
    "spark.kubernetes.driver.secretKeyRef.WORKORDERS_KAFKA": "workorders:kafka",
}


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("WORKORDERS_SPARK_JARS", "/jars/kafka.jar")
    monkeypatch.delenv("WORKORDERS_SPARK_APPS", raising=False)
    # Airflow's provider for Kubernetes, of which the hook's constructor asks that it is installed.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)


def submitted(
    monkeypatch: pytest.MonkeyPatch,
    connection: Mapping[str, Any],
    spark: Mapping[str, Any],
    secrets: JobSecrets = SECRETS,
    **arguments: Any,
) -> list[str]:
    """Return the command that a trigger's settings and an Airflow connection make for batch 7."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **connection}))
    task = make_dags(define("orders", spark=spark))[1].task_dict["create_work_orders"]
    assert isinstance(task, CreateWorkOrdersOperator)
    task.application_args = ["--batch", "7"]
    for name, value in arguments.items():
        setattr(task, name, value)
    hook = task._get_hook()
    with environment_of_driver(hook, secrets):
        command: list[str] = hook._build_spark_submit_command(task.application)
    assert "hunter2" not in " ".join(command)
    return [word.replace(task.application, "APPLICATION") for word in command]


def conf(settings: Mapping[str, str]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]


def test_yarn_in_cluster_mode_gets_the_package_the_environment_and_the_names_of_the_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {
        **YARN_FILES,
        "spark.archives": "hdfs:///envs/libraries.tar.gz#libraries",
        "spark.pyspark.python": "./libraries/bin/python",
        "spark.yarn.maxAppAttempts": "1",
        "spark.executor.instances": "4",
        "spark.driver.memory": "1g",
        "spark.yarn.tags": "orders",
    }
    command = submitted(
        monkeypatch,
        {"host": "yarn", "extra": {"deploy-mode": "cluster", "queue": "ingest"}},
        {"conf": settings},
    )
    java = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=WARN"
    assert command == [
        *(SPARK_SUBMIT, "--master", "yarn", "--conf", java),
        *conf(settings),
        *("--py-files", str(package_archive()), "--jars", "/jars/kafka.jar"),
        *("--name", "workorders orders", "--queue", "ingest", "--deploy-mode", "cluster"),
        *("APPLICATION", "--batch", "7"),
    ]


@pytest.mark.parametrize("references", [KUBERNETES_FILES, KUBERNETES_KEYS])
def test_kubernetes_in_cluster_mode_gets_references_to_secrets_and_the_package_of_its_image(
    monkeypatch: pytest.MonkeyPatch, references: dict[str, str]
) -> None:
    monkeypatch.setenv("WORKORDERS_SPARK_APPS", "local:///opt/workorders/apps")
    settings = {
        **references,
        "spark.kubernetes.container.image": "registry.example/spark-workorders:1",
        "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
        "spark.kubernetes.driver.podTemplateFile": "/etc/spark/driver.yaml",
    }
    command = submitted(
        monkeypatch,
        {"host": "k8s://https://k8s.example", "port": 6443, "extra": {"deploy-mode": "cluster", "namespace": "jobs"}},
        {"conf": settings},
    )
    java = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.level=WARN"
    assert command == [
        *(SPARK_SUBMIT, "--master", "k8s://https://k8s.example:6443", "--conf", java),
        *conf(settings),
        *("--conf", "spark.kubernetes.namespace=jobs", "--jars", "/jars/kafka.jar"),
        *("--name", "workorders orders", "--deploy-mode", "cluster"),
        *("APPLICATION", "--batch", "7"),
    ]


@pytest.mark.parametrize("master", ["yarn", "k8s://https://k8s.example:6443", "spark://a:7077,b:7077"])
def test_executors_elsewhere_get_the_package_in_client_mode_and_the_driver_its_environment(
    monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    command = submitted(monkeypatch, {"host": master}, {}, py_files="/mine.zip")
    assert command[command.index("--py-files") + 1] == f"/mine.zip,{package_archive()}"
    with environment_of_driver(SparkSubmitHook(conn_id="spark_default"), SECRETS):
        assert os.environ["WORKORDERS_DATABASE_URL"] == SECRETS.database_url


def test_executors_on_this_machine_have_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--py-files" not in submitted(monkeypatch, {"host": "local[*]"}, {})


def test_a_standalone_cluster_has_no_cluster_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match="refuses applications in Python; nothing was sent there"):
        submitted(monkeypatch, {"host": "spark://a:7077", "extra": {"deploy-mode": "cluster"}}, {"conf": YARN_FILES})


@pytest.mark.parametrize("missing", YARN_FILES)
def test_a_driver_elsewhere_needs_a_reference_to_each_secret(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    named = {name: file for name, file in YARN_FILES.items() if name != missing}
    with pytest.raises(ConfigurationError, match=f"name the files in the trigger's spark.conf: .*{missing}"):
        submitted(monkeypatch, {"host": "yarn", "extra": {"deploy-mode": "cluster"}}, {"conf": named})


@pytest.mark.parametrize(
    ("host", "references", "own"),
    [
        ("yarn", YARN_FILES, "spark.yarn.appMasterEnv.WORKORDERS_SCHEMA_REGISTRY_FILE"),
        ("k8s://https://a", KUBERNETES_FILES, "spark.kubernetes.driverEnv.WORKORDERS_SCHEMA_REGISTRY_FILE"),
        ("k8s://https://a", KUBERNETES_KEYS, "spark.kubernetes.driver.secretKeyRef.WORKORDERS_SCHEMA_REGISTRY"),
    ],
)
def test_a_driver_elsewhere_needs_a_reference_to_the_registry_if_its_trigger_decodes_by_one(
    monkeypatch: pytest.MonkeyPatch, host: str, references: dict[str, str], own: str
) -> None:
    decoding = replace(SECRETS, registry=REGISTRY)
    connection = {"host": host, "extra": {"deploy-mode": "cluster"}}
    with pytest.raises(ConfigurationError, match=r"nothing was sent there.* and \S+WORKORDERS_SCHEMA_REGISTRY_FILE\.$"):
        submitted(monkeypatch, connection, {"conf": references}, decoding)
    submitted(monkeypatch, connection, {"conf": references | {own: "/etc/workorders/registry"}}, decoding)
    submitted(monkeypatch, connection, {"conf": references})


def test_a_driver_elsewhere_gets_no_secret_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"appMasterEnv\.WORKORDERS_KAFKA has a secret") as refused:
        submitted(
            monkeypatch,
            {"host": "yarn", "extra": {"deploy-mode": "cluster"}},
            {"conf": YARN_FILES},
            env_vars={"WORKORDERS_KAFKA": '{"sasl.password": "hunter2"}'},
        )
    assert "hunter2" not in str(refused.value)


def test_kubernetes_without_airflows_provider_for_it_is_refused_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(spark_submit, "kube_client")
    with pytest.raises(ConfigurationError, match="Install apache-airflow-providers-cncf-kubernetes"):
        submitted(monkeypatch, {"host": "k8s://https://k8s.example", "port": 6443}, {})


def test_the_properties_of_open_lineage_reach_spark_submit_without_their_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def inject(properties: dict[str, Any], _: object) -> dict[str, Any]:
        return properties | {
            "spark.openlineage.parentRunId": "the-run",
            "spark.openlineage.transport.url": "http://lineage",
            "spark.openlineage.transport.auth.apiKey": "hunter2",
        }

    monkeypatch.setattr(operators_spark_submit, "inject_parent_job_information_into_spark_properties", inject)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    replace_spark_submit(monkeypatch, tmp_path, f'echo "$@" > {tmp_path}/arguments')
    task = CreateWorkOrdersOperator(
        task_id="create", definition=define("orders"), batch_id=7, openlineage_inject_parent_job_info=True
    )
    task.submit(Context(), ATTEMPT)
    arguments = (tmp_path / "arguments").read_text()
    assert "--conf spark.openlineage.parentRunId=the-run" in arguments
    assert "--conf spark.openlineage.transport.url=http://lineage" in arguments
    assert "hunter2" not in arguments
    assert arguments.endswith("--batch 7 --epoch 1\n")


def attempted(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str, **arguments: Any) -> None:
    """Submit batch 7 to this machine by a script in place of `spark-submit`."""
    replace_spark_submit(monkeypatch, folder, script)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    task = CreateWorkOrdersOperator(task_id="create", definition=define("orders"), batch_id=7, **arguments)
    task.submit(Context(), ATTEMPT)


def test_the_driver_is_a_process_of_this_python_unless_the_user_names_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    note = f'echo "$PYSPARK_PYTHON $PYSPARK_DRIVER_PYTHON" > {tmp_path}/python'
    attempted(monkeypatch, tmp_path, note)
    assert (tmp_path / "python").read_text() == f"{sys.executable} \n"
    assert "PYSPARK_PYTHON" not in os.environ
    attempted(monkeypatch, tmp_path, note, env_vars={"PYSPARK_PYTHON": "/mine/python"})
    assert (tmp_path / "python").read_text() == "/mine/python \n"
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", "/mine/driver")
    attempted(monkeypatch, tmp_path, note)
    assert (tmp_path / "python").read_text() == " /mine/driver\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 137", r"^spark-submit ended with exit code 137, and printed no reason\.$"),
        ("echo 'JAVA_HOME is not set' >&2; exit 1", "^spark-submit ended with exit code 1: JAVA_HOME is not set$"),
        (
            "cat <<END\n2026-11-26T09:20:17Z main WARN Your hostname is a loopback address\n"
            'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n'
            "ModuleNotFoundError: No module named 'workorders'\n"
            "26/11/26 08:00:00 INFO ShutdownHookManager: Shutdown hook called\nEND\nexit 1",
            "^spark-submit ended with exit code 1: ModuleNotFoundError: No module named 'workorders'$",
        ),
        ("echo 'The password is hunter2'; exit 1", r": The password is \*\*\*$"),
    ],
    ids=["no word", "no Java", "another Python", "a secret"],
)
def test_a_failed_submission_names_its_exit_code_and_the_last_telling_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    with pytest.raises(AirflowException, match=reason):
        attempted(monkeypatch, tmp_path, script)


class Elsewhere:
    """An engine whose answer is lost after it has taken the batch."""

    def __init__(self, _: str) -> None: ...

    def submit(self, _: int, __: int) -> None:
        raise OSError("the connection was lost")


@pytest.mark.parametrize(
    ("spark", "script", "failure"),
    [
        ({}, None, "Nothing was submitted: .*spark-submit was found neither"),
        ({}, "printf '\\377\\n'", "The Spark application failed: .*can't decode byte 0xff"),
        ({"engine": "nowhere.Engine"}, None, "Nothing was submitted: The engine nowhere.Engine"),
        ({"engine": f"{__name__}.Elsewhere"}, None, "The Spark application failed: .*the connection was lost"),
    ],
    ids=["no program", "output in another encoding", "no engine", "an engine without an answer"],
)
def test_an_error_says_that_nothing_was_submitted_only_if_nothing_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, spark: dict[str, str], script: str | None, failure: str
) -> None:
    replace_spark_submit(monkeypatch, tmp_path, script or "")
    if script is None:
        (tmp_path / "spark-submit").unlink()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    task = CreateWorkOrdersOperator(task_id="create", definition=define("orders", spark=spark), batch_id=7)
    assert re.match(failure, task.run_engine(Context(), ATTEMPT, print))


class Remote:
    def __init__(self, connection_id: str) -> None:
        self.connection_id = connection_id

    def submit(self, batch: int, epoch: int) -> None:
        raise NotImplementedError


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("shop_engines")
    made.__dict__.update(Remote=Remote, Nothing=lambda *_: None, Strict=lambda: None)
    monkeypatch.setitem(sys.modules, "shop_engines", made)


@pytest.mark.usefixtures("engines")
def test_an_engine_gets_its_connection() -> None:
    engine = load_engine("shop_engines.Remote", "emr")
    assert isinstance(engine, Remote)
    assert engine.connection_id == "emr"


@pytest.mark.usefixtures("engines")
@pytest.mark.parametrize("path", ["nowhere_at_all.Engine", "shop_engines.Missing", "shop_engines.Strict"])
def test_an_engine_that_cannot_be_made_is_named_with_the_cause(path: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"The engine {path} .* was not submitted; correct"):
        load_engine(path, "emr")


@pytest.mark.usefixtures("engines")
def test_an_engine_without_submit_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"has no method submit\(batch, epoch\)"):
        load_engine("shop_engines.Nothing", "emr")
