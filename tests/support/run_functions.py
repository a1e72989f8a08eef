"""Functions of workflows, well-behaved and not, for the tests of execution; they run in processes of their own."""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import NonRetryableError


def echo(body: Any, context: Context) -> Any:
    """Return the input."""
    return body


def without_context(body: Any) -> Any:
    """Return the input, and forget that there is a context."""
    return body


def behave(body: dict[str, Any], context: Context) -> Any:
    """Do what the input names."""
    return _WAYS[body["do"]](body, context)


def process_id(body: Any, context: Context) -> int:
    """Return the id of the process that this ran in."""
    return os.getpid()


def note(body: dict[str, Any], context: Context) -> None:
    """Append the input's word to the input's file, after the input's seconds."""
    time.sleep(body.get("seconds", 0))
    with Path(body["file"]).open("a") as file:
        file.write(f"{body['word']}\n")


def note_or_fail(body: dict[str, Any], context: Context) -> None:
    """Fail at the first attempt if the input asks for it, and append the input's word otherwise."""
    if body["fail_once"] and context.attempt == 1:
        raise ValueError("not yet")
    note(body, context)


def leave_pid(body: dict[str, Any], context: Context) -> None:
    """Write the id of the process to the input's file, and stay."""
    Path(body["file"]).write_text(str(os.getpid()))
    time.sleep(60)


def nested(body: dict[str, Any], context: Context) -> Any:
    """Return as many lists in one another as the input names, written as JSON text would be."""
    value: Any = 1
    for _ in range(body["levels"]):
        value = [value]
    return value


def _tell(body: dict[str, Any], context: Context) -> None:
    print("printed")
    context.logger.info("logged %s", body.get("word", ""))
    logging.getLogger("a.library").warning("by a library")
    subprocess.run(["echo", "by a program"], check=True)


def _publish(body: dict[str, Any], context: Context) -> None:
    to = body.get("to", "results")
    context.publish(to, {"n": 1}, key="k", headers={"own": b"\xff"})
    context.publish(to, None)
    if body.get("fail"):
        raise ValueError("after publishing")


def _fail(body: dict[str, Any], context: Context) -> None:
    raise ValueError(body.get("word", "no good"))


def _give_up(body: dict[str, Any], context: Context) -> None:
    raise NonRetryableError("there is no such bed")


def _exit_process(body: dict[str, Any], context: Context) -> None:
    print("last words")
    os._exit(7)


def _fault(body: dict[str, Any], context: Context) -> None:
    ctypes.string_at(0)


def _kill(body: dict[str, Any], context: Context) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _sleep(body: dict[str, Any], context: Context) -> None:
    print("going to sleep")
    time.sleep(60)


def _echo_late(body: dict[str, Any], context: Context) -> Any:
    time.sleep(body["seconds"])
    return body


def _meet(body: dict[str, Any], context: Context) -> None:
    """Come to the input's folder, and stay until as many as the input names are there."""
    folder = Path(body["folder"])
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < body["count"]:
        time.sleep(0.05)


def _leave_program(body: dict[str, Any], context: Context) -> None:
    program = subprocess.Popen(["sleep", "60"])
    Path(body["file"]).write_text(str(program.pid))
    time.sleep(60)


_WAYS: dict[str, Callable[[dict[str, Any], Context], Any]] = {
    "echo": lambda body, context: body,
    "echo late": _echo_late,
    "tell": _tell,
    "publish": _publish,
    "fail": _fail,
    "exit": lambda body, context: sys.exit(3),
    "exit process": _exit_process,
    "fault": _fault,
    "kill": _kill,
    "sleep": _sleep,
    "meet": _meet,
    "leave a program": _leave_program,
    "give up": _give_up,
    "no JSON": lambda body, context: object(),
    "much": lambda body, context: "x" * 10_000,
    "chatter": lambda body, context: print("first\n" + "x" * 100_000 + "\nlast"),
    "secret": lambda body, context: print(f"password={os.environ['TEST_PASSWORD']}"),
    "headers": lambda body, context: [context.headers, context.traceparent],
}
