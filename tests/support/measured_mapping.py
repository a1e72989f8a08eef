"""Maps messages in a separate process, and measures what each one costs."""

import multiprocessing
import re
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NamedTuple, Self

from support.hostile_schemas import Case
from support.schema_registry import Registered, framed

MEBIBYTE: Final = 1024 * 1024
_LIMIT_BYTES: Final = 3 * 1024 * MEBIBYTE
_ANSWER_SECONDS: Final = 120


class Cost(NamedTuple):
    """What became of a message."""

    outcome: str
    """`accepted`, the code of its rejection, `refused` if its schema is none of a file, or an exception."""
    mebibytes: float
    """That the process had more at its peak than before."""
    seconds: float
    """Of the processor."""
    requests: int


class MeasuredMapping:
    """A Python worker that maps one message at a time; one that dies is replaced."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def cost(self, case: Case) -> Cost:
        """Return what becomes of a message, and what it costs."""
        self._connection.send(case)
        try:
            if self._connection.poll(_ANSWER_SECONDS):
                cost: Cost = self._connection.recv()
                return cost
            outcome = "no answer"
        except EOFError:
            outcome = "the process ended"
        self.stop()
        self._start()
        return Cost(outcome, 0, 0, 0)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Have a worker."""
        worker = cls()
        try:
            yield worker
        finally:
            worker.stop()


def _serve(connection: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT_BYTES, _LIMIT_BYTES))
    while True:
        connection.send(_measured(connection.recv()))


def _measured(case: Case) -> Cost:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, began = _status("VmRSS"), time.process_time()
    registry = Registered(case.schema, case.references)
    try:
        outcome = _outcome(case, registry)
    except BaseException as error:  # noqa: BLE001 - it is what the test looks for
        outcome = f"{type(error).__name__}: {error}"[:300]
    return Cost(outcome, (_status("VmHWM") - before) / 1024, time.process_time() - began, registry.asked)


def _status(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1])


def _outcome(case: Case, registry: Registered) -> str:
    from workorders.kafka.definition.formats import FORMATS
    from workorders.kafka.formats import payloads
    from workorders.kafka.formats.registry import RegistryDecoder
    from workorders.kafka.ingest.record_mapping import RecordMapping
    from workorders.kafka.partitions import Record

    module, has_registry, *_ = FORMATS[case.format]
    if has_registry:
        decoder = RegistryDecoder(registry, import_module(module).parse, "value")
    else:
        try:
            decoder = import_module(module).make_decoder(case.schema)
        except ValueError:
            return "refused"
    payloads._decoder = lambda *_: decoder  # type: ignore[assignment]
    payload = framed(7, case.payload) if has_registry else case.payload
    mapping = RecordMapping(
        max_message_bytes=MEBIBYTE, payloads=payloads.Payloads(case.format, "text", None, case.schema, MEBIBYTE)
    )
    for _ in range(case.times):
        item = mapping.map_record(Record("orders", 0, 0, None, payload, 0, 0, case.headers), "s")
    return "accepted" if item.rejection is None else item.rejection.code
