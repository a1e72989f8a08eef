"""The Dag of a schedule: Airflow keeps the time, and one task creates the work order."""

from typing import Any, Final

from airflow.sdk import DAG, BaseOperator, Context, CronDataIntervalTimetable
from airflow.sdk.exceptions import AirflowTimetableInvalid

from workorders import dag_ids
from workorders.airflow.connections import database_url
from workorders.airflow.dags.factories import START, new_dag, owner_and_tags, retried_task
from workorders.airflow.page_links import page_path
from workorders.airflow.task_errors import explain_failures
from workorders.core.exceptions import ConfigurationError
from workorders.core.postgres.connection import connect
from workorders.cron.definition import CronTriggerDefinition
from workorders.cron.schedule import Due, ExpiredTimeError, create


def make_dags(definition: CronTriggerDefinition) -> list[DAG]:
    """Return the Dag of a schedule. Pausing it disables the trigger.

    Raises:
        ConfigurationError: the schedule is not a cron expression.
    """
    timetable = CronDataIntervalTimetable(definition.schedule, timezone=definition.timezone)
    try:
        timetable.validate()
    except AirflowTimetableInvalid as error:
        raise ConfigurationError(
            f"Trigger {definition.name}: schedule: {definition.schedule!r} is not a cron expression: {error}."
        ) from error
    with new_dag(
        dag_ids.cron(definition.name),
        is_paused_upon_creation=True,
        description=definition.description or f"Creates a work order of {definition.workflow} on schedule",
        schedule=timetable,
        # Without catch-up, only the last interval before the Dag is unpaused counts.
        start_date=definition.start or START,
        catchup=definition.catchup,
        # One at a time, because an input may be the output of the previous work order.
        max_active_runs=1,
        **owner_and_tags(definition, definition.type),
        doc_md=_DOC.format(
            name=definition.name,
            workflow=definition.workflow,
            schedule=definition.schedule,
            page=page_path("work-orders", trigger=definition.name),
        ),
    ) as dag:
        CreateScheduledOperator(definition=definition, **retried_task(definition, "create_work_order"))
    return [dag]


_BY_SCHEDULE: Final = ("scheduled", "backfill")
"""Types of Dag run that belong to an interval of the schedule."""


class CreateScheduledOperator(BaseOperator):
    """Creates the work order of the Dag run's interval, or of a Dag run that a person started.

    A task that is cleared finds its work order, or fails if retention may have deleted it.
    """

    ui_color = "#e3f2fd"

    def __init__(self, *, definition: CronTriggerDefinition, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.definition = definition

    def execute(self, context: Context) -> str | None:
        """Create the work order and return its id."""
        due = _due(context)
        where = f"Trigger {self.definition.name}, due {due.time.isoformat()}"
        with (
            explain_failures(self, context, where, "No work order was created.", final=(ExpiredTimeError,)),
            connect(
                database_url(self.definition.database_connection), application_name="workorders cron", autocommit=True
            ) as database,
        ):
            made = create(database, self.definition, due)
        self.log.info("%s: %s.", where, made)
        return None if made.id is None else str(made.id)


def _due(context: Context) -> Due:
    run = context["dag_run"]
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    # Not by the interval alone: Airflow gives a Dag run that a person starts the last interval or a chosen one, so that
    # it would find an old work order or take the place of the next scheduled one.
    if run.run_type in _BY_SCHEDULE and start is not None and end is not None:
        return Due(time=end, start=start, is_cleared=bool(run.clear_number), conf=run.conf or {})
    return Due(time=run.run_after, key=f"{run.dag_id}/{run.run_id}", conf=run.conf or {})


_DOC = """
Creates one work order of workflow **{workflow}** for each interval of the schedule `{schedule}`.

* Pause this Dag to disable the trigger `{name}`.
* The interval is the source key: a task that is cleared finds its work order and creates nothing twice. If it is older
  than the workflow's retention and has none, the task fails, because retention may have deleted it.
* A Dag run that a person starts creates its own work order, independent of its logical date.
* Fields in the conf of a Dag run replace those of the same name in the input.
* The page of work orders lists [those of this trigger]({page}).
"""
