"""``make demo``: from a Kafka topic to work orders on its own stack, with a summary that is checked."""

import argparse
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final, NoReturn

import httpx
import psycopg
from confluent_kafka import KafkaException

from demo import single_messages
from demo.checks import TRIGGERS, Size, check, load_demo_trigger
from demo.errors import DemoError
from demo.producer import DeliveryError
from local_stack import running
from local_stack.errors import StackError
from local_stack.stack import CHECKOUT, LocalStack, say
from workorders.kafka.definition.trigger import KafkaTriggerDefinition

_FILE: Final = running.environment_file(CHECKOUT)
_INTERRUPTED: Final = 130


def demo(size: Size, *, keep: bool) -> bool:
    """Start a stack, run the demo on it, and stop it; return whether every figure was right.

    Args:
        size: how much is sent.
        keep: whether to leave the stack running until Ctrl-C or `make down`.

    Raises:
        StackError: the stack did not start, or one is kept already.
        DemoError: there was no progress for some minutes.
        DeliveryError: the broker did not take a message.
    """
    if keep and (kept := running.find(_FILE)):
        raise StackError(f"A stack of this checkout is kept already: {kept.url}; `make down` stops it.")
    with (
        TemporaryDirectory(prefix="workorders-workflows-") as workflows,
        single_messages.triggers_folder(TRIGGERS) as triggers,
        LocalStack(
            airflow=True, spark_connect=True, triggers_folder=triggers, workflows_folder=Path(workflows)
        ) as stack,
    ):
        right = check(stack, Path(workflows), size)
        stack.keep_logs = not right
        if keep:
            _keep(stack, load_demo_trigger())
    return right


def main() -> None:
    """Run the demo; exit code 1 if a figure is off."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--messages", type=int, default=24_000, help="how many are produced (%(default)s)")
    parser.add_argument("--seconds", type=float, default=24.0, help="over how long (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other messages (%(default)s)")
    parser.add_argument("--single", type=int, default=5, help="how many single messages at the end (%(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave the stack running, to look at it, until Ctrl-C")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    try:
        size = Size(messages=given.messages, seconds=given.seconds, seed=given.seed, single=given.single)
        right = demo(size, keep=given.keep)
    except KeyboardInterrupt:
        say("Interrupted; everything that was started has been stopped.")
        sys.exit(_INTERRUPTED)
    except (StackError, DemoError, DeliveryError) as error:
        sys.exit(str(error))
    except (KafkaException, psycopg.Error, httpx.HTTPError) as error:
        sys.exit(f"A part of the stack did not answer the demo, which has stopped all of it: {error}")
    if not given.keep:
        say("\nTo look at it yourself:  make demo KEEP=1")
    sys.exit(0 if right else 1)


def _keep(stack: LocalStack, trigger: KafkaTriggerDefinition) -> None:
    """Print where to look, and wait for Ctrl-C or SIGTERM."""
    # The same file as `make up` writes, so that shells and `make down` find this stack as well.
    running.write(_FILE, stack.variables(), pids=(os.getpid(), stack.supervisor_pid), url=stack.airflow_url)
    try:
        say(_where_to_look(stack, trigger))
        signal.pause()
    except KeyboardInterrupt:
        say("")
    finally:
        _FILE.unlink(missing_ok=True)


def _where_to_look(stack: LocalStack, trigger: KafkaTriggerDefinition) -> str:
    return f"""
Airflow (no login)          {stack.airflow_url}
  waits and plans           {stack.airflow_url}/dags/{trigger.name}_listener
  creates work orders       {stack.airflow_url}/dags/{trigger.name}_ingest
  executes them             {stack.airflow_url}/dags/{trigger.workflow}_runs

In another shell, in this folder:
    . {_FILE.relative_to(CHECKOUT)}
    workorders status
    workorders batches list
    workorders work-orders list --state rejected
    PYTHONPATH=include python -m demo.producer --bootstrap-servers {stack.bootstrap_servers}    # sends 1000 more

It runs until Ctrl-C here, or `make down`. While it runs, every user of this machine is an admin of Airflow and Kafka.
"""


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


if __name__ == "__main__":
    main()
