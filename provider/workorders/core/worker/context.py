"""The context of a run, which a workflow's function gets in addition to the input."""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec
from uuid import UUID, uuid4

import orjson

from workorders.core.items import (
    MAX_PUBLISHED_BYTES,
    MAX_PUBLISHED_MESSAGES,
    Headers,
    Message,
    encode_message,
    header_pairs,
)
from workorders.core.trace_headers import TRACEPARENT, child_traceparent, first_header_values
from workorders.core.worker.exceptions import InvalidValueError, PublishLimitError
from workorders.core.worker.ipc import decode_messages, message_bytes
from workorders.core.worker.steps import Steps, require_outside_steps

if TYPE_CHECKING:
    import psycopg

P = ParamSpec("P")

LOGGER: Final = "workorders.run"


class Context:
    """The context of one run.

    Values that need the request are computed at their first use, because most functions never use them.

    Args:
        run_id: id of this run.
        work_order_id: id of the work order; the same for every attempt, so it serves as an idempotency key.
        attempt: number of the run among those of its work order; the first one is 1.
        trigger: name of the trigger that created the work order; None if none did.
        traceparent: W3C trace context of the run's span; made when needed if there is no span.
        request: UTF-8 JSON text that describes where the input came from.
        carry_headers: names of the headers that the workflow carries on.
        max_published_messages: maximum number of messages that the run publishes.
        max_published_bytes: maximum size of all of them.
        steps: its steps; None if none is stored.
    """

    def __init__(
        self,
        run_id: str,
        work_order_id: str,
        attempt: int,
        trigger: str | None,
        traceparent: str | None = None,
        *,
        request: bytes,
        carry_headers: Iterable[str] = (),
        max_published_messages: int = MAX_PUBLISHED_MESSAGES,
        max_published_bytes: int = MAX_PUBLISHED_BYTES,
        steps: Steps | None = None,
    ) -> None:
        self.run_id = run_id
        self.work_order_id = work_order_id
        self.attempt = attempt
        self.trigger = trigger
        self._span_traceparent = traceparent
        self._request = request
        self._carry_headers = tuple(carry_headers)
        self._max_published_messages = max_published_messages
        self._max_published_bytes = max_published_bytes
        self._published: list[bytes] = []
        self._published_count = 0
        self._published_bytes = 0
        self._steps = steps or Steps(run_id, work_order_id)

    @classmethod
    def for_test(
        cls,
        *,
        attempt: int = 1,
        trigger: str | None = None,
        request: Mapping[str, Any] | None = None,
        carry_headers: Iterable[str] = (),
        connection: Any = None,
        steps: Mapping[str, Any] | None = None,
    ) -> "Context":
        """Return a context for a test of a function, which needs no database and no broker.

        Args:
            attempt: number of the run.
            trigger: name of the trigger.
            request: where the input came from.
            carry_headers: names of the headers of `request` that the context has.
            connection: what the functions of `transaction` get, such as a connection to a database of the test, or a
                stand-in. The test begins and ends its transaction.
            steps: results of the steps and transactions that an earlier attempt has finished.
        """
        run_id, work_order_id = str(uuid4()), str(uuid4())
        stored = [(name, orjson.dumps(result).decode()) for name, result in (steps or {}).items()]
        return cls(
            run_id,
            work_order_id,
            attempt,
            trigger,
            request=orjson.dumps(request or {}),
            carry_headers=carry_headers,
            steps=Steps(run_id, work_order_id, stored=stored, connection=connection),
        )

    @cached_property
    def request(self) -> Mapping[str, Any]:
        """Where the input came from: for Kafka topic, partition, offset, key, headers, timestamp."""
        request: Mapping[str, Any] = orjson.loads(self._request)
        return request

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers that the workflow carries on (`carry_headers`), by their names there."""
        return first_header_values(self.request, self._carry_headers)

    @cached_property
    def traceparent(self) -> str:
        """W3C trace context of this run: the trace of the message or request with its own span."""
        if self._span_traceparent is not None:
            return self._span_traceparent
        return child_traceparent(first_header_values(self.request, [TRACEPARENT]).get(TRACEPARENT))

    @cached_property
    def logger(self) -> logging.Logger:
        """A logger of the run's log. So is every other logger, and `print`: this one only saves the import."""
        return logging.getLogger(LOGGER)

    @property
    def steps(self) -> Mapping[str, Any]:
        """The results of the finished steps, by name."""
        return self._steps.results

    def step_id(self, name: str) -> str:
        """Return the id of a step, a UUID: an idempotency key for the service that the step calls.

        It is the same in every attempt, until a person reruns the work order from the start.

        Raises:
            StepError: a step cannot have that name.
        """
        return self._steps.key(name).id

    def step(self, name: str, function: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call a function, store what it returns, and return it; a later attempt gets the stored result instead.

        The result is what JSON makes of it, also in the first attempt. If the function raises, nothing is stored. It is
        called again if its process ends before the result is stored, so use `step_id` as idempotency key.

        Args:
            name: identifies the step; each one of the function has another.
            function: is called with the other arguments.
            args: its arguments.
            kwargs: its named arguments.

        Raises:
            StepError: the name is wrong or used twice, or there are too many steps or too large results.
            InvalidValueError: JSON cannot hold the result.
        """
        return self._steps.step(name, lambda: function(*args, **kwargs))

    def transaction(
        self,
        name: str,
        function: "Callable[Concatenate[psycopg.Connection[Any], P], object]",
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Any:
        """Call a function in a transaction of the workflow's `database`, and return its result.

        What the function writes by its connection happens exactly once for the work order: the result commits with it,
        and a later attempt gets that result instead of calling the function. The function may be called again after a
        transaction that Postgres rolled back. It neither commits nor rolls back. The arguments are those of `step`, and
        the function gets the connection before them.

        Raises:
            StepError: as `step`; or the workflow has no `database`, or the function has ended the transaction.
            StepsTableMissingError: the database has no table for steps.
            StepOutcomeUnknownError: the answer to the COMMIT was lost, and the database does not come back.
            psycopg.Error: the transaction failed, and nothing of it was committed.
        """
        return self._steps.transaction(name, lambda connection: function(connection, *args, **kwargs))

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was published so far."""
        return decode_messages(self.encoded_messages())

    def encoded_messages(self) -> bytes:
        """Return what was published so far, as the process of the run sends it."""
        self._require_publish_limits()
        return b"".join(self._published)

    def publish(
        self,
        to: str,
        value: Any,
        *,
        key: str | bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
        event_id: UUID | None = None,
    ) -> None:
        """Send a message when, and only when, this run succeeds.

        It is written into the outbox in the transaction that records the success, and goes out from there. The run's
        traceparent and the carried headers go with it, unless `headers` names them.

        Args:
            to: name of where it goes; for Kafka a topic.
            value: bytes or text as they are; None for a tombstone; anything else as JSON.
            key: key of the message.
            headers: pairs of name and value, or a mapping.
            partition: the partition; chosen by the key when None.
            timestamp_ms: milliseconds since 1970; when None, the time at which it is sent.
            event_id: what a consumer can tell a repeated message by; given by the outbox when None.

        Raises:
            InvalidValueError: the message can never be sent: JSON has no such value, an argument has a wrong type, or
                the event id is no UUID.
            PublishLimitError: the run publishes more than its workflow allows; it fails even if it catches this.
            StepError: the function of a step publishes, which a later attempt does not call.
        """
        require_outside_steps()
        try:
            pairs = header_pairs(headers)
            named = {name.lower() for name, _ in pairs}
            own = {**self.headers, TRACEPARENT: self.traceparent}
            message = encode_message(
                to,
                value,
                key=key,
                headers=[*pairs, *((name, value) for name, value in own.items() if name.lower() not in named)],
                partition=partition,
                timestamp_ms=timestamp_ms,
                event_id=None if event_id is None else UUID(str(event_id)),
            )
            # JSON has no text that UTF-8 has not, and no number of more than 64 bits.
            encoded = message_bytes(message)
        except (TypeError, ValueError) as error:
            raise InvalidValueError(f"A message for {to!r} can never be sent: {error}.") from error
        self._published_count += 1
        self._published_bytes += len(encoded)
        self._require_publish_limits()
        # Only then, because a function that catches the error may publish more and more.
        self._published.append(encoded)

    def _require_publish_limits(self) -> None:
        count = self._published_count
        if count > self._max_published_messages or self._published_bytes > self._max_published_bytes:
            raise PublishLimitError(
                f"The run published {count} messages of {self._published_bytes} bytes, so it failed and none is sent. "
                f"Its workflow allows {self._max_published_messages} (max_published_messages) of "
                f"{self._max_published_bytes} bytes (max_published_bytes); publish less in one run, or set a higher "
                "limit."
            )
