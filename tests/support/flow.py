"""A trigger's whole way through Airflow: its two DAGs, and what they have done in Postgres and Kafka."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from support.airflow_api import AirflowApi, Run, Task
from support.eventually import eventually
from support.observed_trigger import ObservedTrigger, Place

# A run takes some 20 s on an idle machine and several times that on a busy one.
SECONDS = 420.0


class Flow:
    """A trigger and its DAGs.

    Args:
        api: Airflow.
        trigger: the trigger.
        wait_task: task of the listener that waits for messages.
        create_task: task of the ingest that creates the work orders.
    """

    def __init__(
        self,
        api: AirflowApi,
        trigger: ObservedTrigger,
        *,
        wait_task: str = "wait_for_messages",
        create_task: str = "create_work_orders",
    ) -> None:
        self.api = api
        self.trigger = trigger
        self.wait_task = wait_task
        self.create_task = create_task
        self.listener = f"{trigger.name}_listener"
        self.ingest = f"{trigger.name}_ingest"

    @contextmanager
    def held_back(self, values: Iterable[tuple[int, bytes | None]]) -> Iterator[list[Place]]:
        """Produce messages and hold their ingest back, once a batch of them was dispatched, until the end.

        Raises:
            AssertionError: none was dispatched in time.
        """
        self.until_waiting()
        self.api.set_paused(self.ingest, paused=True)
        before = len(self.ingest_runs())
        try:
            places = self.trigger.produce(values)
            eventually(lambda: len(self.ingest_runs()) > before, seconds=SECONDS, what="the dispatch of a batch")
            yield places
        finally:
            self.api.set_paused(self.ingest, paused=False)

    def until_ingested(self, places: Iterable[Place]) -> None:
        """Wait until exactly these messages have work orders, each once, and every commit has followed.

        Raises:
            AssertionError: that did not come true in time.
        """
        wanted = list(places)
        name = self.trigger.name
        eventually(
            lambda: self.trigger.count() >= len(wanted), seconds=SECONDS, what=f"{name}: {len(wanted)} work orders"
        )
        assert self.trigger.has_all(wanted)
        self.until_settled()

    def until_settled(self) -> None:
        """Wait until every ingest run has ended well, and the group's offsets are the ledger's and the log's end.

        The group has none of a partition that never had a batch.

        Raises:
            AssertionError: that did not come true in time.
        """
        name = self.trigger.name
        eventually(lambda: not self.unfinished(), seconds=SECONDS, what=f"{name}: the end of all ingest runs")
        # What came behind the messages of a batch, such as an aborted transaction, is planned a moment later.
        eventually(self._has_ended, seconds=SECONDS, what=f"{name}: the end of the log in ledger and group")

    def _has_ended(self) -> bool:
        ledger = self.trigger.next_offsets()
        planned = {range_["partition"] for range_ in self.trigger.ranges()}
        return (
            ledger == self.trigger.last_stable_offsets()
            and self.trigger.group_offsets() == {number: ledger[number] for number in planned}
            and not self.unfinished()
        )

    def until_begun(self, run: Run, number: int) -> Task:
        """Wait until a try to create the work orders of a run has begun, and return the task.

        One that waits for a worker has its number already, and the times of the try before it.

        Raises:
            AssertionError: that did not come true in time.
        """

        def begun() -> Task | None:
            task = self.create(run)
            at_work = task.state not in {None, "scheduled", "queued"}
            return task if task.try_number > number or (task.try_number == number and at_work) else None

        task = eventually(begun, seconds=SECONDS, what=f"try {number} of {run.id}")
        assert task is not None
        return task

    def until_failed(self, run: Run) -> None:
        """Wait until a try to create the work orders of a run has failed.

        Raises:
            AssertionError: that did not come true in time.
        """
        eventually(lambda: self.create(run).state == "up_for_retry", seconds=SECONDS, what=f"a failed try of {run.id}")

    def unfinished(self) -> list[Run]:
        """Return the ingest runs that have not ended well."""
        return [run for run in self.api.runs(self.ingest) if run.state != "success"]

    def ingest_runs(self) -> list[Run]:
        """Return the ingest runs, oldest first."""
        return self.api.runs(self.ingest)

    def finished_listener_runs(self) -> list[Run]:
        """Return the listener runs that have ended, oldest first."""
        return [run for run in self.api.runs(self.listener) if run.state in {"success", "failed"}]

    def waiting(self) -> Task | None:
        """Return the task that waits for messages in the triggerer, if there is one."""
        for run in self.api.runs(self.listener):
            if run.state == "running":
                task = self.api.task(run, self.wait_task)
                if task.state == "deferred":
                    return task
        return None

    def until_waiting(self) -> Task:
        """Wait until the listener waits, and return its task.

        Raises:
            AssertionError: it did not in time.
        """

        def waits() -> Task | None:
            task = self.waiting()
            return task if task and "Waiting for messages" in self.api.log_text(task) else None

        task = eventually(waits, seconds=SECONDS, what=f"{self.trigger.name}: a listener that waits")
        assert task is not None
        return task

    def create(self, run: Run) -> Task:
        """Return the task of an ingest run that creates the work orders."""
        return self.api.task(run, self.create_task)
