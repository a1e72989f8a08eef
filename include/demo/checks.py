"""The whole demo on a stack that runs: its messages, a replay, their execution, and whether every figure is right."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clinic.events import ALARMS
from demo import single_messages
from demo.errors import DemoError
from demo.execution import Execution
from demo.producer import Stream
from demo.running_stack import RunningStack
from demo.show import Show
from demo.topic import Topic
from local_stack.stack import CHECKOUT
from workorders.core.definitions.loading import load_trigger
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

TRIGGERS: Final = CHECKOUT / "include" / "triggers"
_TRIGGER: Final = TRIGGERS / "events.yaml"
_WORKFLOW: Final = CHECKOUT / "include" / "workflows" / "register_event.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much the demo sends."""

    messages: int
    """Those of an aborted transaction not counted."""
    seconds: float
    """Over how long they are spread."""
    single: int
    """How many single messages are sent at the end for each type of Spark connection."""
    seed: int = 1
    """Of the generator; the same one gives the same messages."""


def load_demo_trigger() -> KafkaTriggerDefinition:
    """Return the trigger of the demo.

    Raises:
        DemoError: its file defines a trigger of another type.
    """
    trigger = load_trigger(_TRIGGER)
    if not isinstance(trigger, KafkaTriggerDefinition):
        raise DemoError(f"{_TRIGGER.name} must define a Kafka trigger for the demo; its type is {trigger.type}.")
    return trigger


def check(stack: RunningStack, workflows: Path, size: Size) -> bool:
    """Run the demo on a stack; return whether every figure was right.

    Args:
        stack: where Airflow has the triggers of `single_messages.triggers_folder`.
        workflows: the folder in which Airflow looks for workflow files; empty, because what is executed meanwhile would
            change under the eyes of the replay.
        size: how much is sent.

    Raises:
        DemoError: there was no progress for some minutes.
        DeliveryError: the broker did not take a message.
    """
    trigger = load_demo_trigger()
    stream = Stream(messages=size.messages, seconds=size.seconds, seed=size.seed, topic=trigger.topics[0])
    single_messages.create_topics(stack.kafka_settings)
    alarms = Topic(stack.kafka_settings, ALARMS, "demo-alarms")
    execution = Execution(_WORKFLOW, workflows, stack.database_url, alarms, stack.airflow_url)
    execution.prepare()
    right = Show.on(stack, trigger, stream).run() and execution.run()
    if right:
        single_messages.show(stack.kafka_settings, stack.database_url, size.single)
    return right
