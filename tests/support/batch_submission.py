"""The command that makes an attempt at a batch of a stack, submitted to this machine or to a cluster."""

from collections.abc import Mapping
from typing import Final

from local_stack.stack import CHECKOUT, LocalStack
from support.spark_submit import submit_command

APPLICATION: Final = CHECKOUT / "spark_apps" / "create_work_orders.py"
"""The program that makes an attempt at a batch."""


def batch_command(
    stack: LocalStack, batch_id: int, conf: Mapping[str, str] | None = None, *, master: str | None = None
) -> list[str]:
    """Return program and arguments; `conf` and `master` are those of `submit_command`."""
    jars = ",".join(map(str, stack.spark_jars))
    return submit_command(jars, APPLICATION, ["--batch", str(batch_id)], conf, master=master)
