"""``python -m local_stack``: keep a stack running, stop it, write the lock of its jars."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, get_args

import psutil

from local_stack import jars, running, wheel
from local_stack.airflow import restart_ended
from local_stack.errors import StackError
from local_stack.pgbouncer import Pooling
from local_stack.stack import CHECKOUT, LocalStack, say
from local_stack.waiting import wait_until

_START_SECONDS = 1200.0
_STOP_SECONDS = 60.0
_RESTART_SECONDS = 5.0
_FILE = running.environment_file(CHECKOUT)
_LOG = _FILE.with_name("up.log")
_WHEEL = _FILE.with_name("wheel")
_SPARKS = ("connect", "submit", "cluster")
"""Which Spark runs before a batch comes: a Spark Connect server, none, or a cluster to which batches are submitted."""
_EXECUTORS = ("local", "celery")
"""Where Airflow's tasks run: next to the scheduler, or on two Celery workers."""


def up(arguments: argparse.Namespace) -> None:
    """Start a stack and keep it until Ctrl-C or SIGTERM."""
    _refuse_a_second()
    signal.signal(signal.SIGTERM, _end)
    try:
        with _described(arguments) as stack:
            pids = (os.getpid(), stack.supervisor_pid)
            say(_next_steps(stack))
            # Last: `up --detach` ends as soon as it finds the file, and shows only what was printed until then.
            running.write(_FILE, stack.variables(), pids=pids, url=stack.airflow_url)
            _keep(stack)
    except KeyboardInterrupt:
        say("Interrupted.")
    finally:
        _FILE.unlink(missing_ok=True)
        shutil.rmtree(_WHEEL, ignore_errors=True)


def _keep(stack: LocalStack) -> NoReturn:
    """Do what a supervisor does in production: start what ended of Airflow again, as after a loss of its database."""
    restarts: Counter[str] = Counter()
    while True:
        time.sleep(_RESTART_SECONDS)
        for line in restart_ended(stack.airflow.components, restarts):
            say(line)


def up_detached(options: Sequence[str]) -> None:
    """Start a stack that stays when this program ends, and show its progress until it is ready.

    Args:
        options: Those of `up`.

    Raises:
        StackError: It did not start.
    """
    _refuse_a_second()
    _LOG.parent.mkdir(parents=True, exist_ok=True)
    _LOG.touch(mode=0o600)
    with _LOG.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "local_stack", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    shown = 0

    def finished() -> bool:
        nonlocal shown
        shown = _show(_LOG, shown)
        return process.poll() is not None or running.find(_FILE) is not None

    try:
        wait_until(finished, seconds=_START_SECONDS)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    finally:
        _show(_LOG, shown)
    if process.poll() is not None:
        raise StackError("The stack did not start; its output is above.")
    stack = running.find(_FILE)
    if stack is None:
        process.terminate()
        raise StackError(f"The stack did not start within {_START_SECONDS:g} s and was stopped.")


def down() -> None:
    """Stop the stack that ``up`` started from this checkout.

    Raises:
        StackError: It did not end.
    """
    stack = running.find(_FILE)
    _FILE.unlink(missing_ok=True)
    if stack is None:
        say("No stack of this checkout is running.")
        return
    say("Stopping the local stack ...")
    with suppress(IndexError, psutil.NoSuchProcess):  # it has just ended by itself
        stack.alive()[0].terminate()
    if not wait_until(lambda: not stack.alive(), seconds=_STOP_SECONDS):
        raise StackError(f"The stack did not end within {_STOP_SECONDS:g} s; its processes are {stack.alive()}.")
    say("Stopping the local stack ... stopped")


def lock_jars() -> None:
    """Resolve the jars again and write their lock files."""
    locked = jars.resolve_lock()
    for file, is_sparks in ((jars.LOCK_FILE, False), (jars.SPARK_LOCK_FILE, True)):
        chosen = [jar for jar in locked if jar.group.startswith("spark") == is_sparks]
        file.write_text(jars.format_lock(chosen), encoding="utf-8")
        say(f"{len(chosen)} jars are locked in {file}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="python -m local_stack", description=__doc__)
    commands = made.add_subparsers(dest="command", required=True)
    start = commands.add_parser(
        "up", help="start Postgres, Kafka and Airflow and keep them until Ctrl-C", allow_abbrev=False
    )
    start.add_argument("--spark", choices=_SPARKS, help="which Spark runs before a batch comes")
    start.add_argument("--executor", choices=_EXECUTORS, default="local", help="where Airflow's tasks run")
    start.add_argument("--pooler", choices=get_args(Pooling), help="how PgBouncer before Postgres pools")
    start.add_argument("--registry", action="store_true", help="start a schema registry as well")
    start.add_argument("--logins", action="store_true", help="let Kafka ask for a login of every kind")
    start.add_argument("--wheel", action="store_true", help="run Airflow with its own settings and the wheel alone")
    start.add_argument("--detach", action="store_true", help="return when all is ready and leave it running")
    commands.add_parser("down", help="stop what `up` started from this checkout")
    fetch = commands.add_parser("fetch-jars", help="fill the cache with a group of jars and print their paths")
    fetch.add_argument("group", choices=("kafka", "spark"))
    commands.add_parser("lock-jars", help="resolve the jars again and write their checksums")
    return made


def main() -> None:
    """Run the command that was asked for."""
    arguments = parser().parse_args()
    try:
        match arguments.command:
            case "up" if arguments.detach:
                up_detached([option for option in sys.argv[2:] if option != "--detach"])
            case "up":
                up(arguments)
            case "down":
                down()
            case "fetch-jars":
                group = jars.spark_group() if arguments.group == "spark" else arguments.group
                say(",".join(map(str, jars.fetch(group))))
            case _:
                lock_jars()
    except StackError as error:
        sys.exit(str(error))


def _described(arguments: argparse.Namespace) -> LocalStack:
    """Return the stack that the options ask for."""
    installed = _install_wheel() if arguments.wheel else None
    # The wheel submits its batches, as after an installation.
    spark = arguments.spark or ("submit" if installed else "connect")
    return LocalStack(
        airflow=True,
        spark_connect=spark == "connect",
        spark_cluster=spark == "cluster",
        celery=arguments.executor == "celery",
        pooler=arguments.pooler,
        schema_registry=arguments.registry,
        logins=arguments.logins,
        stock=arguments.wheel,
        programs=installed.programs if installed else None,
        environment=installed.environment if installed else None,
        name="up",
    )


def _install_wheel() -> wheel.Installation:
    say("Building the wheel and installing it into a separate environment ...")
    shutil.rmtree(_WHEEL, ignore_errors=True)
    return wheel.install(_WHEEL)


def _refuse_a_second() -> None:
    if stack := running.find(_FILE):
        raise StackError(
            f"A stack of this checkout is running already: {stack.url}; nothing was started; `make down` stops it."
        )


def _end(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(0)


def _show(file: Path, start: int) -> int:
    """Print what a file holds from a position on; return the position up to which it was printed."""
    with file.open("rb") as stream:
        stream.seek(start)
        sys.stdout.write(stream.read().decode(errors="replace"))
        sys.stdout.flush()
        return stream.tell()


def _next_steps(stack: LocalStack) -> str:
    environment = _FILE.relative_to(CHECKOUT)
    return f"""
Airflow: {stack.airflow_url} {_login(stack)}

Type next:
    . {environment}     # lets this shell know the stack
    workorders status
    make down                        # stops it and removes all of it
"""


def _login(stack: LocalStack) -> str:
    if stack.airflow_login is None:
        return """(no login)
Every user of this machine is an admin there, and of Kafka: they can run code as you.
Use it on your own machine."""
    user, _ = stack.airflow_login
    return f"""(user {user}, password in {stack.airflow.passwords_file})
Its sources are paused, and its definitions are in {_WHEEL.relative_to(CHECKOUT)}/workorders.
Every user of this machine is an admin of Kafka: use it on your own machine."""


if __name__ == "__main__":
    main()
