"""Functions of workflows, well-behaved and not, for the tests of execution; they run in separate processes."""

import asyncio
import ctypes
import fcntl
import io
import json
import locale
import logging
import logging.config
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any

from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import NonRetryableError
from workorders.core.worker.ipc import Frame


def echo(body: Any, context: Context) -> Any:
    """Return the input."""
    return body


def without_context(body: Any) -> Any:
    """Return the input, and forget that there is a context."""
    return body


def behave(body: dict[str, Any], context: Context) -> Any:
    """Do what the input names."""
    return _WAYS[body["do"]](body, context)


async def echo_later(body: Any, context: Context) -> Any:
    """Return the input from an event loop, and leave a task there."""
    body["left"] = asyncio.create_task(asyncio.sleep(60)) is None
    await asyncio.sleep(0)
    if body.get("fail"):
        raise ValueError("awaited")
    return body


def yielding(body: Any, context: Context) -> Iterator[Any]:
    """Yield the input."""
    yield body


def process_id(body: Any, context: Context) -> int:
    """Return the id of the process that this ran in."""
    return os.getpid()


def note(body: dict[str, Any], context: Context) -> None:
    """Append the input's word to the input's file, after the input's seconds, and behind so many words."""
    time.sleep(body.get("seconds", 0))
    path, words = Path(body["file"]), body.get("words", 0)
    while words and len(path.read_text().split()) < words:
        time.sleep(0.05)
    with path.open("a") as file:
        file.write(f"{body['word']}\n")


def publish(body: dict[str, Any], context: Context) -> None:
    """Publish a message with the input's key to the input's topic; note the input's word before, if it has one."""
    if "file" in body:
        note(body, context)
    else:
        time.sleep(body.get("seconds", 0))
    context.publish(body["to"], None, key=body["key"])


def note_or_fail(body: dict[str, Any], context: Context) -> None:
    """Fail at the first attempt if the input asks for it, and append the input's word otherwise."""
    if body["fail_once"] and context.attempt == 1:
        raise ValueError("not yet")
    note(body, context)


def work_alone(body: dict[str, Any], context: Context) -> None:
    """Note in the input's folder that it begins, and what exists that must not; then succeed, fail, or die.

    It holds files that the kernel frees when the process ends: that of its ordering key, and one of as many as the
    workflow's concurrency.
    """
    folder, event = Path(body["folder"]), [body["key"], body["stream"], body["position"], context.attempt]
    random = Random(f"{folder.name}{event}")
    with ExitStack() as held:
        faults = []
        if body["has_order"] and not _hold(held, [folder / f"key-{body['key']}"]):
            faults.append("its ordering key is at work")
        if body["concurrency"] and not _hold(held, [folder / f"place-{n}" for n in range(body["concurrency"])]):
            faults.append("there are more at work than the concurrency")
        with (folder / "begun").open("a") as begun:
            begun.write(f"{json.dumps([*event, faults])}\n")
        time.sleep(random.choice((0, 0, 0.001, 0.02)))
        if (chance := random.random()) < 0.2:
            raise ValueError("by chance")
        if chance < 0.23:
            os.kill(os.getpid(), signal.SIGKILL)


def _hold(held: ExitStack, paths: list[Path]) -> bool:
    """Lock one of the files, and return whether one was free."""
    for path in paths:
        file = held.enter_context(path.open("a"))
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


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
    program = subprocess.Popen(["sleep", "60"], start_new_session=body["apart"])
    Path(body["file"]).write_text(str(program.pid))
    if body["crash"]:
        os._exit(7)
    time.sleep(60)


def _fail_with_secret(body: dict[str, Any], context: Context) -> None:
    raise ValueError("x" * body["before"] + os.environ["TEST_PASSWORD"] + "y" * 9_000)


def _half_a_character(body: dict[str, Any], context: Context) -> None:
    raise NonRetryableError("no such file: " + os.fsdecode(b"invoice-\xff.pdf"))


def _name_half_a_character(body: dict[str, Any], context: Context) -> None:
    class OddError(NonRetryableError):
        pass

    OddError.__qualname__ = "Odd\0"
    raise OddError("a name with NUL, and \ud800")


class _TextlessError(NonRetryableError):
    def __str__(self) -> str:
        raise SystemExit


def _textless(body: dict[str, Any], context: Context) -> None:
    raise _TextlessError


def _fork(body: dict[str, Any], context: Context) -> str:
    """Let the forked copy leave this function as a plain function is left."""
    if (pid := os.fork()) == 0:
        if body["do"] == "fork and fail":
            raise ValueError("in the forked copy")
        return "the copy"
    os.waitpid(pid, 0)
    return "the original"


def _send_nonsense(body: dict[str, Any], context: Context) -> None:
    """Send the input's header, or write to the pipes of the process, as a function does that confuses descriptors."""
    if body["header"] is not None:
        header = json.loads(json.dumps(body["header"]).replace("RUN", context.run_id))
        context._steps._host._write(Frame(header))
    for descriptor in range(3, 500 if body["header"] is None else 0):
        with suppress(OSError):
            os.write(descriptor, b"by mistake, and more than a length")
    time.sleep(60)


def _close_all(body: dict[str, Any], context: Context) -> None:
    os.closerange(3, 500)
    time.sleep(60)


def _publish_much(body: dict[str, Any], context: Context) -> None:
    with suppress(Exception):
        for _ in range(body["count"]):
            context.publish("results", b"x" * body["size"])


def _hold_the_interpreter(body: dict[str, Any], context: Context) -> None:
    """Sleep in C code that does not let other threads run."""
    Path(body["file"]).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(60)


def _leave(body: dict[str, Any], context: Context) -> None:
    """Change the process as the input names it, and restore nothing."""
    _LEFT[body["left"]](body)


_LEFT: dict[str, Callable[[dict[str, Any]], Any]] = {
    "logging": lambda body: logging.config.dictConfig({"version": 1}),
    "a level": lambda body: logging.disable(logging.CRITICAL),
    "a handler": lambda body: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "a timer": lambda body: signal.setitimer(signal.ITIMER_REAL, 60),
    "a folder": lambda body: os.chdir(body["folder"]),
    "a umask": lambda body: os.umask(0o777),
    "an environment": lambda body: (os.environ.pop("HOME", None), os.environ.update(LEFT="behind")),
    "a locale": lambda body: locale.setlocale(locale.LC_ALL, "C.UTF-8"),
    "a stream": lambda body: setattr(sys, "stdout", io.StringIO()),
    "a descriptor": lambda body: os.dup2(os.open(os.devnull, os.O_WRONLY), 2),
    "a closed stream": lambda body: sys.stdout.close(),
    "a thread": lambda body: threading.Thread(target=time.sleep, args=[60], name="left").start(),
    "a daemon": lambda body: threading.Thread(target=time.sleep, args=[60], daemon=True).start(),
    "a transaction": lambda body: _begin(body["database"]),
    "a transaction of an event loop": lambda body: asyncio.run(_begin_in_loop(body["database"])),
    "a thread's transaction": lambda body: _begin_in_thread(body["database"]),
    "nothing": lambda body: None,
}
_connections: list[Any] = []
"""What a function keeps from run to run."""


def _begin(url: str) -> None:
    import psycopg

    _connections.append(psycopg.connect(url))
    _connections[-1].execute("SELECT 1")


async def _begin_in_loop(url: str) -> None:
    import psycopg

    _connections.append(await psycopg.AsyncConnection.connect(url))
    await _connections[-1].execute("SELECT 1")


def _begin_in_thread(url: str) -> None:
    def begin() -> None:
        _begin(url)
        begun.set()
        time.sleep(60)

    begun = threading.Event()
    threading.Thread(target=begin, daemon=True).start()
    begun.wait(20)


def _state_of_process() -> list[Any]:
    """Return what a run should find unchanged."""
    mask = os.umask(0)
    os.umask(mask)
    return [
        [str(signal.getsignal(signal.SIGUSR1)), signal.getitimer(signal.ITIMER_REAL)[0], str(Path.cwd()), mask],
        [os.environ.get("HOME"), os.environ.get("LEFT"), locale.setlocale(locale.LC_ALL)],
        subprocess.run(["printenv", "LEFT"], capture_output=True, check=False).stdout.decode(),
        sorted({connection.info.transaction_status.name for connection in _connections} - {"IDLE", "UNKNOWN"}),
    ]


def _look(body: dict[str, Any], context: Context) -> list[Any]:
    _tell(body, context)
    return _state_of_process()


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
    "fail with the secret": _fail_with_secret,
    "half a character": _half_a_character,
    "name half a character": _name_half_a_character,
    "no text": _textless,
    "fork and fail": _fork,
    "fork and return": _fork,
    "send nonsense": _send_nonsense,
    "close all": _close_all,
    "publish much": _publish_much,
    "publish no JSON": lambda body, context: context.publish("results", {1, 2}),
    "not a number": lambda body, context: {"mean": math.nan},
    "hold the interpreter": _hold_the_interpreter,
    "leave": _leave,
    "look": _look,
    "no JSON": lambda body, context: object(),
    "much": lambda body, context: "x" * 10_000,
    "chatter": lambda body, context: print("first\n" + "x" * 100_000 + "\nlast"),
    "secret": lambda body, context: print(f"password={os.environ['TEST_PASSWORD']}"),
    "headers": lambda body, context: [context.headers, context.traceparent],
}
