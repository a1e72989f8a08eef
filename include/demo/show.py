"""The demo on a running stack: produce while Airflow works, replay a batch, and check everything."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import httpx

from demo.airflow_api import AirflowApi
from demo.comparison import compare
from demo.database import Batch, Database
from demo.errors import DemoError
from demo.producer import Sent, Stream, produce
from demo.progress import ProgressLine, Snapshot
from demo.replay import TASK, Replay, replay
from demo.running_stack import RunningStack
from demo.summary import Found, Offsets, figures, pace, table
from demo.topic import Topic
from local_stack.stack import say
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

PARTITIONS: Final = 4
_PATIENCE_SECONDS: Final = 300.0
_LOOK_EVERY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Show:
    """The parts of a demo on one stack."""

    stack: RunningStack
    trigger: KafkaTriggerDefinition
    stream: Stream
    topic: Topic
    database: Database
    api: AirflowApi

    @classmethod
    def on(cls, stack: RunningStack, trigger: KafkaTriggerDefinition, stream: Stream) -> "Show":
        """Return the demo of a trigger on a stack that runs."""
        topic = Topic(stack.kafka_settings, stream.topic, trigger.consumer_group)
        api = AirflowApi(stack.airflow_url, stack.airflow_login)
        return cls(stack, trigger, stream, topic, Database(stack.database_url), api)

    @property
    def ingest_dag(self) -> str:
        """The Dag whose runs create the work orders."""
        return f"{self.trigger.name}_ingest"

    def run(self) -> bool:
        """Run the demo and return whether every figure is right.

        Raises:
            DemoError: there was no progress for some minutes.
            DeliveryError: the broker did not take a message.
        """
        self.topic.create(PARTITIONS)
        say(
            f"\nA producer that knows nothing of work orders sends {self.stream.messages:,} health records "
            f"to the topic {self.topic.name},\n{PARTITIONS} partitions, in {self.stream.seconds:g} s. "
            f"Meanwhile Airflow works: {self.stack.airflow_url}\n"
        )
        sent = self._produce_and_wait()
        batches = self.database.batches()
        again = self._replay(batches)
        return self._check(sent, batches, again)

    def _produce_and_wait(self) -> Sent:
        sent, stop = Sent(), threading.Event()
        with ThreadPoolExecutor(1, "producer") as pool:
            producing = pool.submit(produce, self.stack.kafka_settings, self.stream, sent, stop)
            try:
                self._watch(producing, sent)
            finally:
                stop.set()
        return sent

    def _watch(self, producing: Future[None], sent: Sent) -> None:
        """Show how far everything is until all that was produced is committed."""
        line = ProgressLine()
        last, changed_at = None, time.monotonic()
        while True:
            # Asked before the lag is: until the last message is in, a lag of 0 means only that Airflow is quick.
            all_produced = producing.done()
            if all_produced:
                producing.result()
            snapshot = self._snapshot(sent)
            line.show(snapshot, last=all_produced and snapshot.lag == 0)
            if all_produced and snapshot.lag == 0:
                return
            if last is None or snapshot.counts != last.counts:
                changed_at = time.monotonic()
            elif time.monotonic() - changed_at > _PATIENCE_SECONDS:
                raise DemoError(f"For {_PATIENCE_SECONDS:g} s there was no progress; the last figures: {snapshot}.")
            last = snapshot
            time.sleep(_LOOK_EVERY_SECONDS)

    def _snapshot(self, sent: Sent) -> Snapshot:
        progress = self.database.progress()
        return Snapshot(sent.committed, progress.created, progress.rejected, self._offsets().group_lag, self._at_work())

    def _at_work(self) -> tuple[str, ...]:
        try:
            return tuple(self.api.at_work())
        except httpx.HTTPError as error:
            return (f"Airflow's API does not answer ({type(error).__name__})",)

    def _offsets(self) -> Offsets:
        return Offsets(
            last_stable=self.topic.last_stable_offsets(),
            ledger=self.database.ledger(self.trigger.name, self.topic.name),
            group=self.topic.group_offsets(),
        )

    def _replay(self, batches: list[Batch]) -> Replay:
        """Replay the largest batch."""
        largest = max(batches, key=lambda batch: batch.work_orders)
        run_id = f"batch_{largest.id}"
        say(f"\nAll are ingested. Now the task {TASK} of {self.ingest_dag} {run_id} is cleared, which ingests its")
        say(f"{largest.work_orders:,} messages again ...")
        again = replay(self.api, self.database, self.ingest_dag, run_id)
        say(f"\n{again.note}\n")
        say("\n".join(f"    {line}" for line in again.table))
        return again

    def _check(self, sent: Sent, batches: list[Batch], again: Replay) -> bool:
        """Print the summary, from Kafka and from Postgres, and return whether every figure is right."""
        visible = self.topic.read("read_committed")
        orders = self.database.work_orders()
        comparison = compare(self.topic.name, visible, orders)
        stored = len(self.topic.read("read_uncommitted"))
        lines = figures(Found(sent, len(visible), stored, orders, comparison, self._offsets(), again))
        say(f"\n{table(lines)}\n\n{pace(comparison.seconds, batches)}\n")
        off = [line.name for line in lines if line.off]
        say(f"OFF: {', '.join(off)}" if off else "Every message has exactly one work order.")
        return not off
