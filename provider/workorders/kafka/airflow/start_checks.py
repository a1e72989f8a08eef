"""The checks of `workorders start` and `workorders doctor`: what a message needs, and the command that helps."""

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workorders import dag_ids
from workorders.airflow import metadata
from workorders.airflow.connections import database_url
from workorders.airflow.metadata import KnownDag
from workorders.airflow.task_errors import EXPECTED_FAILURES
from workorders.core import schema
from workorders.core.definitions.validation import validate
from workorders.core.definitions.workflow import WorkflowDefinition
from workorders.core.environment import DATABASE_CONNECTION, SPARK_JARS_VARIABLE
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.core.postgres.connection import connect
from workorders.core.worker.child import load_function
from workorders.kafka.airflow.connections import connect_server, kafka_settings
from workorders.kafka.client.admin import KafkaAdmin, run
from workorders.kafka.client.settings import open_admin
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.spark import kafka_source
from workorders.kafka.spark.programs import find_spark_submit, java_home

_SECONDS: Final = 5.0
"""Limit of each question; a person waits for the answer."""
_MIN_JAVA: Final = 17
_JAVA_VERSION: Final = re.compile(r'JAVA_VERSION="(?:1\.)?(\d+)')
_APPLICATION: Final = "workorders doctor"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a message needs."""

    check: str
    ok: bool
    found: str
    """What was found, or what is wrong."""
    command: str | None = None
    """What to run if something is wrong."""


_Step = tuple[str, Callable[[], str], str]
"""A check, what returns what was found or raises what is wrong, and what to run then."""


@dataclass(frozen=True, slots=True)
class Source:
    """The Dag that takes a trigger's input."""

    trigger: str
    dag: KnownDag
    definition: KafkaTriggerDefinition | None
    """That of a Kafka trigger, as Airflow has stored it; it stores no other."""
    dags: Mapping[str, KnownDag]
    """All of the package, by id: `metadata.our_dags()`."""

    @property
    def is_switch(self) -> bool:
        """Whether the trigger is disabled while the Dag is paused."""
        return self.dag.dag_id != dag_ids.manual(self.trigger)


def find_source(trigger: str, dags: Mapping[str, KnownDag]) -> Source | None:
    """Return the Dag of a trigger that Airflow has parsed; None if there is none."""
    for dag_id in dag_ids.sources_of(trigger):
        dag = dags.get(dag_id)
        if dag is not None:
            is_kafka = dag_id == dag_ids.listener(trigger)
            stored = metadata.definition_of(dag_id, "wait_for_messages") if is_kafka else None
            where = f"Dag {dag.dag_id}"
            definition = None if stored is None else validate(stored, KafkaTriggerDefinition, where=where)
            return Source(trigger, dag, definition, dags)
    return None


def list_sources(dags: Mapping[str, KnownDag]) -> list[str]:
    """Return the names of the triggers that have a Dag, sorted."""
    return sorted(filter(None, map(dag_ids.trigger_of_source, dags)))


def of_installation() -> Iterator[Check]:
    """Check what all triggers need: Airflow's components and the database."""
    ended = metadata.ended_components()
    for component in metadata.COMPONENTS:
        program = component.replace("_", "-")
        runs = component not in ended
        found = "runs" if runs else "has no recent heartbeat: it does not run, or cannot start without this package"
        yield Check(f"Airflow's {program}", runs, found, f"airflow {program}")
    yield from of_database(DATABASE_CONNECTION)


def of_dags(dags: Mapping[str, KnownDag]) -> Iterator[Check]:
    """Check that all files became Dags, and that none is paused of those that serve all triggers."""
    for error in metadata.import_errors():
        yield Check("Dag files", ok=False, found=error, command="airflow dags list-import-errors")
    for dag in dags.values():
        if dag_ids.is_refused(dag.dag_id):
            command = "workorders triggers check DIR, or workorders workflows check DIR"
            yield Check(f"Dag {dag.dag_id}", ok=False, found="its file has a mistake", command=command)
        elif dag_ids.is_shared(dag.dag_id) and dag.is_paused:
            yield _paused(dag)


def of_source(trigger: str, source: Source | None) -> Iterator[Check]:
    """Check what one trigger needs beyond the installation."""
    if source is None:
        found = (
            f"Airflow has parsed no Dag {' or '.join(dag_ids.sources_of(trigger))}: the trigger's file is "
            f"missing or has a mistake, or its folder is in no Dag bundle (a webhook needs no Dag)"
        )
        yield Check(f"trigger {trigger}", ok=False, found=found, command="airflow dags list-import-errors")
        return
    yield Check(f"trigger {trigger}", ok=True, found=f"has the Dag {source.dag.dag_id} of bundle {source.dag.bundle}")
    definition = source.definition
    if definition is None:
        return
    if definition.database_connection != DATABASE_CONNECTION:
        yield from of_database(definition.database_connection)
    yield from of_workflow(definition.workflow, source.dags)
    ingest = source.dags.get(dag_ids.ingest(trigger))
    if ingest is not None and ingest.is_paused:
        yield _paused(ingest)
    yield from of_kafka(definition)
    yield from of_spark(definition.spark_connection)


def of_database(connection_id: str) -> Iterator[Check]:
    """Check that the database answers, its version, and the rights of the user of an Airflow connection."""

    def server() -> str:
        with connect(database_url(connection_id), application_name=_APPLICATION) as database:
            return f"PostgreSQL {schema.require_postgres(database)} answers"

    def tables() -> str:
        schema.require_newest(database_url(connection_id))
        return f"are at version {schema.newest()}"

    def rights() -> str:
        with connect(database_url(connection_id), application_name=_APPLICATION) as database:
            missing = schema.find_missing_rights(database)
        if missing:
            raise ConfigurationError(f"The user of the connection {connection_id} lacks {'; '.join(missing)}.")
        return "are those of a writer"

    uri = "postgresql://workorders_writer:PASSWORD@HOST/workorders"
    yield from _until_wrong(
        _exists(connection_id, database_url, f"airflow connections add {connection_id} --conn-uri {uri}"),
        ("database", server, f"airflow connections get {connection_id}"),
        ("tables", tables, "workorders db migrate"),
        ("rights", rights, "workorders db migrate --roles"),
    )


def of_workflow(workflow: str, dags: Mapping[str, KnownDag]) -> Iterator[Check]:
    """Check that a workflow is known, that its function can be imported, and that its Dag is not paused."""
    dag_id, name = dag_ids.of_workflow(workflow), f"workflow {workflow}"
    dag = dags.get(dag_id)
    stored = metadata.definition_of(dag_id, "wait_for_runs")
    if dag is None or stored is None:
        found = f"Airflow has parsed no Dag {dag_id}: the workflow's file or module is missing, or has a mistake"
        yield Check(name, ok=False, found=found, command="workorders workflows check DIR")
        return
    if dag.is_paused:
        yield _paused(dag)
    definition = validate(stored, WorkflowDefinition, where=f"Dag {dag_id}")
    function, started = definition.callable, str(definition.dag_id)
    if function is None:
        is_paused = metadata.paused_dags([started]).get(started)
        found = "does not exist" if is_paused is None else "is paused" if is_paused else "exists"
        yield Check(name, is_paused is False, f"its Dag {started} {found}", f"airflow dags unpause {started}")
        return
    # The Dag files of `workorders init` import the modules of the folder above theirs.
    folders = [str(folder) for folder in Path(dag.file).parents[:2]]

    def load() -> str:
        sys.path.extend(folder for folder in folders if folder not in sys.path)
        load_function(function)
        return f"{function} can be imported here"

    yield from _until_wrong((name, load, f"python -c 'import {function.partition(':')[0]}'"))


def of_kafka(definition: KafkaTriggerDefinition) -> Iterator[Check]:
    """Check that the cluster answers, that the topics exist, and the rights to read them and to commit."""
    connection_id = definition.kafka_connection

    def admin() -> KafkaAdmin:
        return open_admin(connection_id, kafka_settings, timeout_seconds=_SECONDS)

    async def cluster() -> str:
        return f"cluster {await admin().cluster_id()} answers"

    async def topics() -> str:
        kafka = admin()
        found = (await kafka.partitions(definition.topics)).require()
        names = {partition.topic for partition in found}
        (await kafka.log_ends(names, to_read=True)).require()
        return f"may be read: {len(names)}, {len(found)} partitions"

    async def group() -> str:
        kafka = admin()
        found = (await kafka.partitions(definition.topics)).require()
        (await kafka.committed(definition.consumer_group, found)).require()
        if found:
            await kafka.require_commits(definition.consumer_group)
        return "its offsets may be committed"

    add = f"airflow connections add {connection_id} --conn-type kafka --conn-extra"
    extra = '{"bootstrap.servers": "HOST:PORT"}'
    allow = "--add --allow-principal User:NAME --operation Read --group"
    yield from _until_wrong(
        _exists(connection_id, kafka_settings, f"{add} '{extra}'"),
        ("Kafka", lambda: run(cluster()), f"airflow connections get {connection_id}"),
        (
            f"topics {', '.join(definition.topics)}",
            lambda: run(topics()),
            "kafka-topics.sh --bootstrap-server HOST:PORT --create --topic NAME",
        ),
        (
            f"consumer group {definition.consumer_group}",
            lambda: run(group()),
            f"kafka-acls.sh --bootstrap-server HOST:PORT {allow} {definition.consumer_group}",
        ),
    )


def of_spark(connection_id: str) -> Iterator[Check]:
    """Check that a Spark Connect server accepts connections, or what an application needs that is submitted here."""
    name = f"connection {connection_id}"
    add = f"airflow connections add {connection_id} --conn-type spark --conn-host 'local[*]'"
    try:
        server = connect_server(connection_id)
    except EXPECTED_FAILURES as error:
        yield Check(name, ok=False, found=one_line(error), command=add)
        return
    if server is None:
        yield Check(name, ok=True, found="each batch submits an application")
        yield from _until_wrong(
            ("spark-submit", find_spark_submit, "pip install 'airflow-provider-workorders[spark]'"),
            ("Java", _java, "export JAVA_HOME=/path/to/java"),
            ("Spark's Kafka source", _jars, f"export {SPARK_JARS_VARIABLE}=$(workorders spark jars)"),
        )
        return

    def listening() -> str:
        socket.create_connection((server.host, server.port), timeout=_SECONDS).close()
        return f"the {server} accepts connections"

    yield from _until_wrong((name, listening, f"workorders spark serve --port {server.port}"))


def _java() -> str:
    home = java_home()
    if home is None:
        raise ConfigurationError("There is no Java: JAVA_HOME is not set, and the PATH has no java.")
    release = home / "release"
    version = _JAVA_VERSION.search(release.read_text(encoding="utf-8")) if release.is_file() else None
    if version is not None and int(version[1]) < _MIN_JAVA:
        raise ConfigurationError(f"{home} is Java {version[1]}, and Spark needs {_MIN_JAVA} or newer.")
    return str(home)


def _jars() -> str:
    jars = kafka_source.split_jars(os.environ.get(SPARK_JARS_VARIABLE))
    missing = [str(jar) for jar in jars if not jar.is_file()]
    if missing:
        raise ConfigurationError(f"{SPARK_JARS_VARIABLE} names files that do not exist: {', '.join(missing)}.")
    return f"{len(jars)} jars" if jars else f"each batch resolves {kafka_source.package()} from Maven Central"


def _paused(dag: KnownDag) -> Check:
    return Check(f"Dag {dag.dag_id}", ok=False, found="is paused", command=f"airflow dags unpause {dag.dag_id}")


def _exists(connection_id: str, look_up: Callable[[str], object], command: str) -> _Step:
    def connection() -> str:
        look_up(connection_id)
        return "exists"

    return (f"connection {connection_id}", connection, command)


def _until_wrong(*steps: _Step) -> Iterator[Check]:
    """Check one after the other until something is wrong: what follows depends on it."""
    for check, ask, command in steps:
        try:
            found = ask()
        except (*EXPECTED_FAILURES, OSError) as error:
            yield Check(check, ok=False, found=one_line(error), command=command)
            return
        yield Check(check, ok=True, found=found)
