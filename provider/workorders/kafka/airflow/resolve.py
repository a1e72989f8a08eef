"""The Dag by which a person decides how a partition of a Kafka trigger continues: its form, and its operator."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, BaseOperator, Param

from workorders import times
from workorders.airflow.connections import database_url
from workorders.airflow.dags.factories import manual_dag
from workorders.airflow.operators.base import triggering_user
from workorders.airflow.page_links import page_path
from workorders.airflow.task_errors import explain_failures, log_failure_wrapped
from workorders.core.definitions.loading import TRIGGERS, read_folder
from workorders.core.postgres.connection import connect
from workorders.kafka.airflow.connections import kafka_settings
from workorders.kafka.client.admin import KafkaAdmin
from workorders.kafka.client.settings import client_settings
from workorders.kafka.definition.trigger import KafkaTriggerDefinition
from workorders.kafka.exceptions import DecisionRefusedError, DecisionUncertainError
from workorders.kafka.recovery.decisions import DecisionKind
from workorders.kafka.recovery.resolution import DecisionRequest, apply, list_decisions, preview

if TYPE_CHECKING:
    from airflow.sdk import Context

_KINDS = {
    DecisionKind.SKIP_LOST: (
        "skip what is lost",
        "at the first offset that Kafka has, or at the end of a truncated log",
    ),
    DecisionKind.ACCEPT_TOPIC: ("accept the new topic", "from its first offset, or the one given"),
    DecisionKind.SEEK: ("seek", "at the offset or the time given, forward or back"),
}
"""Name of each decision, and where reading then continues."""
RESOLVE_DAG = "workorders_resolve"
_AGAIN = "To decide, trigger the Dag again; a cleared task decides nothing."


def resolve_dags(folder: Path) -> dict[str, DAG]:
    """Return the Dag by which a person decides on any Kafka trigger of a folder, by id; none without such a trigger.

    A file with a mistake is left out; it has a Dag of its own that fails with the mistake.

    Raises:
        ConfigurationError: the folder does not exist.
    """
    triggers = read_folder(TRIGGERS, folder).definitions.values()
    definitions = [definition for definition in triggers if isinstance(definition, KafkaTriggerDefinition)]
    return {RESOLVE_DAG: _resolve_dag(definitions)} if definitions else {}


def _resolve_dag(definitions: list[KafkaTriggerDefinition]) -> DAG:
    with manual_dag(
        RESOLVE_DAG,
        dag_display_name="work orders: resolve",
        description="Makes an operator's decision on partitions of a Kafka trigger",
        params=resolve_params(definitions),
        tags=["kafka", "resolve", "workorders"],
        doc_md=_RESOLVE_DOC.format(page=page_path()),
    ) as dag:
        ResolveOperator(task_id="apply_decision", definitions=definitions)
    return dag


def resolve_params(definitions: Sequence[KafkaTriggerDefinition]) -> dict[str, Param]:
    """Return the fields of the form for these triggers."""
    triggers = [definition.name for definition in definitions]
    topics = sorted({topic for definition in definitions for topic in definition.topic_names})
    has_patterns = any(definition.topic_patterns for definition in definitions)
    topic: dict[str, Any] = {"examples" if has_patterns else "enum": topics}
    return {
        # Without a default where there are several: the wrong one would be decided on.
        "trigger": Param(**_only(triggers), type="string", title="Kafka trigger", enum=triggers),
        "decision": Param(
            DecisionKind.SKIP_LOST.value,
            type="string",
            title="Decision",
            enum=[kind.value for kind in DecisionKind],
            # Airflow cuts off a longer one.
            values_display={kind.value: name for kind, (name, _) in _KINDS.items()},
            description=" ".join(f"{name.capitalize()}: {where}." for name, where in _KINDS.values()),
        ),
        "topic": Param(**_only(topics), type="string", title="Topic", **topic),
        "partitions": Param(
            [],
            type="array",
            items={"type": "integer", "minimum": 0},
            title="Partitions",
            description="Numbers, such as [0, 3]; empty for all that need this decision.",
        ),
        "offset": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Offset",
            description="To seek. Otherwise only to begin elsewhere in a new or truncated log.",
        ),
        "time": Param(
            None,
            type=["null", "string"],
            format="date-time",
            title="Time",
            description="To seek, instead of an offset: the first message at or after this time.",
        ),
        "reason": Param(type="string", minLength=1, title="Reason", description="Kept with the decision."),
        "dry_run": Param(True, type="boolean", title="Dry run", description="Only log what would be done."),
    }


def _only(names: Sequence[str]) -> dict[str, Any]:
    return {"default": names[0]} if len(names) == 1 else {}


class ResolveOperator(BaseOperator):
    """Applies the decision of the Dag run's form, once; with `dry_run` it only logs what it would do.

    A decision is about the ledger as a person saw it, and is recorded with that person's name. So a cleared task
    decides nothing: it reports what was decided, or refuses, because Airflow does not tell who cleared it.

    Args:
        definitions: the triggers among which the form chooses one.
    """

    ui_color = "#fdf0d5"

    def __init__(self, *, definitions: Sequence[KafkaTriggerDefinition], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definitions = {definition.name: definition for definition in definitions}

    @log_failure_wrapped
    def execute(self, context: "Context") -> list[str]:
        """Log what the decision does, apply it, and return the sentences.

        Raises:
            DecisionRefusedError: it does not fit, an attempt is at work, or the Dag run was cleared before it decided;
                nothing was changed.
            DecisionUncertainError: the database connection was lost meanwhile; the sentence contains how to find out.
            TaskFailedError: the cluster or the database failed; nothing was changed.
        """
        params = context["params"]
        where = f"Trigger {params['trigger']}, {params['topic']}"
        passthrough = (DecisionRefusedError, DecisionUncertainError)
        with explain_failures(
            self, context, where, "Nothing was decided, and nothing was changed.", passthrough=passthrough, again=_AGAIN
        ):
            return self._resolve(context, self.definitions[params["trigger"]], params)

    def _resolve(self, context: "Context", definition: KafkaTriggerDefinition, params: Mapping[str, Any]) -> list[str]:
        request = DecisionRequest(
            DecisionKind(params["decision"]),
            definition.name,
            params["topic"],
            tuple(params["partitions"]),
            params["offset"],
            _time(params["time"]),
        )
        run = context["dag_run"]
        request_key = f"{run.dag_id}/{run.run_id}"
        url = database_url(definition.database_connection)
        with connect(url, application_name="workorders resolve") as database:
            earlier = [str(found) for found in list_decisions(database, request_key=request_key, limit=None)]
            if earlier:
                for sentence in earlier:
                    self.log.info("%s", sentence)
                self.log.info("This Dag run has decided already; nothing was changed now.")
                return earlier
            if run.clear_number and not params["dry_run"]:
                raise DecisionRefusedError(
                    f"Trigger {request.trigger}, {request.topic}: this Dag run decided nothing before it was cleared, "
                    f"and Airflow does not tell who cleared it; nothing was decided, and nothing was changed. {_AGAIN}"
                )
            cluster = KafkaAdmin(client_settings(kafka_settings(definition.kafka_connection)))
            decisions = preview(database, cluster, request)
            sentences = [str(decision) for decision in decisions]
            if params["dry_run"]:
                for sentence in sentences:
                    self.log.info("Would do: %s", sentence)
                self.log.info("Nothing was changed; trigger this Dag again without the dry run to do it.")
                return sentences
            actor = triggering_user(context)
            applied = apply(
                database,
                cluster,
                decisions,
                actor=actor,
                reason=params["reason"],
                group=definition.group,
                account=actor,
                request_key=request_key,
            )
        for number, decision in applied.decisions:
            self.log.info("Decision %s by %s: %s", number, actor, decision)
        for warning in applied.warnings:
            self.log.warning("%s", warning)
        return sentences


def _time(text: str | None) -> datetime | None:
    found = times.parse(text, now=datetime.now(UTC)) if text else None
    if text and found is None:
        raise DecisionRefusedError(f"time: nothing was changed, because this takes {times.FORM}. {_AGAIN}")
    return found


_RESOLVE_DOC = """
Makes an operator's decision where a partition of a Kafka trigger cannot continue by itself, because Kafka has lost
data: the form of `workorders resolve`.

* With **dry run**, the default, the log contains what would be done, and nothing is changed.
* It refuses while an attempt at the partition's batch is active, and if the decision does not fit.
* What was decided is recorded with actor, time and reason: `workorders decisions`.
* [The overview]({page}) lists stalled partitions. The page of a trigger shows past decisions, and
  what a decision gives up before you make it.
"""
