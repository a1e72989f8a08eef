"""The steps of one run: what its function finishes once, however often the work order is attempted."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid5

from workorders.core.worker import json_values
from workorders.core.worker.exceptions import StepError

MAX_STEPS: Final = 1_000
"""Maximum number of steps of a work order, until it is rerun from the start."""
MAX_STEP_BYTES: Final = 1024 * 1024
"""Maximum size of the results of all of them."""
MAX_NAME_CHARACTERS: Final = 200

_IDS: Final = UUID("0b1f6e0e-6b5e-4d57-9f0c-8d8c1f0a7a52")

_within: ContextVar[str] = ContextVar("within", default="")
"""What calls the function that is executed now: `context.step`, `context.transaction`, or nothing."""

_STEP: Final = "context.step"
_TRANSACTION: Final = "context.transaction"


class StepKey(NamedTuple):
    """What identifies a step: the same in each attempt."""

    work_order_id: str
    generation: int
    """1 until a person reruns the work order from the start."""
    name: str

    @property
    def id(self) -> str:
        """A UUID that names it in other systems."""
        return str(uuid5(_IDS, f"{self.work_order_id}/{self.generation}/{self.name}"))


class Steps:
    """The steps of one run. The host is its process (`Child`); without one, as in tests of functions, none is stored.

    `stored` are the names, and the results as JSON text, of the steps that earlier attempts have stored.
    """

    def __init__(
        self,
        run_id: str,
        work_order_id: str,
        host: Any = None,
        generation: int = 1,
        stored: Iterable[tuple[str, str]] = (),
        *,
        connection: Any = None,
    ) -> None:
        self._run_id = run_id
        self._work_order_id = work_order_id
        self._host = host
        self._connection = connection
        self._generation = generation
        self._results = {name: result.encode() for name, result in stored}
        self._begun: set[str] = set()
        self._lock = threading.Lock()

    @property
    def results(self) -> Mapping[str, Any]:
        """The results by name: of earlier attempts, and of this one."""
        return {name: json_values.loads(result) for name, result in self._results.items()}

    def key(self, name: str) -> StepKey:
        """Return the key of a step."""
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
            raise StepError(
                f"The name of a step is a text of 1 to {MAX_NAME_CHARACTERS} printable characters; got {name!r:.300}."
            )
        return StepKey(self._work_order_id, self._generation, name)

    def step(self, name: str, call: Callable[[], object]) -> Any:
        """Return the stored result of a step; if there is none, call the function and store what it returns."""
        self._begin(_STEP, name)
        if name not in self._results:
            with _calling(_STEP):
                returned = call()
            result = self._serialized(name, returned)
            if self._host is not None:
                self._host.store(self._run_id, name, result)
            self._results[name] = result
        return json_values.loads(self._results[name])

    def transaction(self, name: str, call: Callable[[Any], object]) -> Any:
        """Return the result of a step that commits in the database of the user."""
        key = self._begin(_TRANSACTION, name)

        def called(connection: Any) -> bytes:
            with _calling(_TRANSACTION):
                returned = call(connection)
            return self._serialized(name, returned)

        if self._host is not None:
            self._results[name] = self._host.transact(self._run_id, key, called)
        elif name not in self._results:
            self._results[name] = called(self._connection)
        return json_values.loads(self._results[name])

    def _begin(self, kind: str, name: str) -> StepKey:
        key = self.key(name)
        if _within.get() == _TRANSACTION:
            raise StepError(
                f"{kind}({name!r}) was called in the function of a {_TRANSACTION}, which may be called again or rolled "
                "back, so it was not begun; call it before or after the transaction."
            )
        with self._lock:
            if name in self._begun:
                raise StepError(
                    f"{kind}({name!r}): this attempt has another step with that name, so it was not begun; give each "
                    "step a unique name, such as one with the number of its round in a loop."
                )
            self._begun.add(name)
            if len({*self._begun, *self._results}) > MAX_STEPS:
                raise StepError(f"{kind}({name!r}): a work order has at most {MAX_STEPS} steps, so it was not begun.")
        return key

    def _serialized(self, name: str, returned: object) -> bytes:
        result = json_values.dumps(returned)
        size = len(result) + sum(map(len, list(self._results.values())))
        if size > MAX_STEP_BYTES:
            raise StepError(
                f"The results of the steps of this work order have {size} bytes with that of {name!r}, more than "
                f"{MAX_STEP_BYTES}, so it was not stored; return a reference instead of the content."
            )
        return result


def require_outside_steps() -> None:
    """Make sure that no function of a step is executed."""
    if kind := _within.get():
        raise StepError(
            f"context.publish was called in the function of a {kind}, which a later attempt does not call, so nothing "
            "was published; publish after the step."
        )


@contextmanager
def _calling(kind: str) -> Iterator[None]:
    token = _within.set(kind)
    try:
        yield
    finally:
        _within.reset(token)
