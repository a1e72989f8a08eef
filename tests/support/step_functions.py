"""Functions of workflows with steps, and the database in which they count."""

import math
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from workorders.core.worker.context import Context
from workorders.core.worker.user_database import CREATE_TABLE

if TYPE_CHECKING:
    from local_stack.stack import LocalStack

TABLES = "CREATE TABLE counters (name text PRIMARY KEY, number integer NOT NULL)"
CONNECTION = "shop_db"


def user_database(stack: "LocalStack", name: str) -> str:
    """Create a database of a user, and return its URL."""
    stack.postgres.create_database(name)
    url = stack.postgres.url(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(CREATE_TABLE)
        connection.execute(TABLES)
    return url


def ship(order: dict[str, Any], context: Context) -> dict[str, Any]:
    """Write a line, add one to a counter, and publish; be killed at the input's point, in the first attempt."""
    written = context.step("line", _write, order, context)
    _die(order, context, "after the step")
    number = context.transaction("count", _count, order, context)
    _die(order, context, "after the transaction")
    context.publish("shipments", {"order": order["order"]}, key=str(order["order"]))
    return {"line": written, "number": number, "attempt": context.attempt}


def _write(order: dict[str, Any], context: Context) -> str:
    word = context.step_id("line")
    time.sleep(order.get("seconds", 0))
    with Path(order["file"]).open("a") as file:
        file.write(f"{order['order']} {word}\n")
    _die(order, context, "in the step")
    return word


def _count(connection: psycopg.Connection[Any], order: dict[str, Any], context: Context) -> int:
    number = add_one(connection, str(order["order"]))
    time.sleep(order.get("seconds", 0))
    _die(order, context, "in the transaction")
    return number


def add_one(connection: psycopg.Connection[Any], name: str) -> int:
    """Add one to a counter, and return its number."""
    row = connection.execute(
        "INSERT INTO counters VALUES (%s, 1) ON CONFLICT (name) DO UPDATE SET number = counters.number + 1 "
        "RETURNING number",
        [name],
    ).fetchone()
    assert row
    return int(row[0])


def _die(order: dict[str, Any], context: Context, point: str) -> None:
    if order.get("die") == point and context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def count_once(body: dict[str, Any], context: Context) -> int:
    """Add one to a counter."""
    number: int = context.transaction("count", add_one, "once")
    return number


def no_op_transaction(body: dict[str, Any], context: Context) -> Any:
    """Return the input from a transaction in which the function writes nothing."""
    return context.transaction("return", lambda _: body)


def no_op_step(body: dict[str, Any], context: Context) -> Any:
    """Return the input from a step."""
    return context.step("return", lambda: body)


def count_and_stay(body: dict[str, Any], context: Context) -> None:
    """Add one to a counter, and then, in the first attempt, create the input's file and stay."""
    count_once(body, context)
    if context.attempt == 1:
        Path(body["file"]).touch()
        time.sleep(60)


def attempt(body: dict[str, Any], context: Context) -> Any:
    """Do what the input names."""
    return _WAYS[body["do"]](body, context)


def _secret(body: dict[str, Any], context: Context) -> list[bool]:
    """Write the password to the log, and return whether this process shows it to others."""
    password: list[str] = []
    context.transaction("see", lambda connection: password.append(connection.info.password))
    print("password:", *password)
    places = [Path(f"/proc/{os.getpid()}/{name}").read_bytes() for name in ("environ", "cmdline")]
    return [password[0].encode() in place for place in places]


def _stay(body: dict[str, Any], context: Context) -> None:
    """Finish a step when the input's file is there."""

    def wait() -> str:
        Path(body["file"]).write_text(str(os.getpid()))
        while Path(body["file"]).exists():
            time.sleep(0.01)
        return "stayed"

    context.step("stay", wait)


def _number(number: int) -> int:
    return number


def _threads(body: dict[str, Any], context: Context) -> list[int]:
    with ThreadPoolExecutor(8) as threads:
        steps = [threads.submit(context.step, f"step {number}", _number, number) for number in range(20)]
        counts = [threads.submit(context.transaction, f"count {number}", add_one, "threads") for number in range(20)]
        return [sum(done.result() for done in steps), max(done.result() for done in counts)]


def _again(body: dict[str, Any], context: Context) -> None:
    context.step("first", lambda: print("first is called"))
    context.step("second", lambda: 1 / (context.attempt - 1))


def _pid(body: dict[str, Any], context: Context) -> list[int]:
    return [os.getpid(), context.transaction("pid", lambda connection: connection.info.backend_pid)]


_WAYS: dict[str, Callable[[dict[str, Any], Context], Any]] = {
    "show the secret": _secret,
    "stay": _stay,
    "threads": _threads,
    "again": _again,
    "pid": _pid,
    "twice": lambda body, context: [context.step("same", int), context.step("same", int)],
    "not a number": lambda body, context: context.step("number", lambda: math.inf),
    "much": lambda body, context: context.step("much", lambda: "x" * 2_000_000),
}
