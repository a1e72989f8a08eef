"""Why a client's connections fail: librdkafka reports that to a callback alone, and its requests just time out."""

import logging
import time
from typing import Final

from confluent_kafka import KafkaError

_REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
    }
)
_TLS_ALERT: Final = "tls alert"
"""Part of the error if the broker ends the connection because of the client's certificate, or of its absence."""
_WITHOUT_REASON: Final = frozenset({KafkaError._ALL_BROKERS_DOWN})

_QUIET_SECONDS: Final = 60.0


class _OncePerMinute(logging.Filter):
    """Lets one line of each kind pass per minute, as a warning: a client repeats its lines while a broker is down."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is logged; the first argument of librdkafka's lines is their kind, such as FAIL."""
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        kind = record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
        now = time.monotonic()
        if now - self._passed.get(kind, -_QUIET_SECONDS) < _QUIET_SECONDS:
            return False
        self._passed[kind] = now
        return True


CLIENT_LOG: Final = logging.getLogger("workorders.kafka.client")
"""Where a client's own lines go, which say more than its errors; it writes them while it is polled."""
CLIENT_LOG.addFilter(_OncePerMinute())


class ConnectionErrors:
    """The `error_cb` of one client."""

    def __init__(self) -> None:
        #: The last error with which a broker, or the endpoint of tokens, refused the client; None if it did not.
        self.refusal: KafkaError | None = None
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Remember an error; librdkafka calls this while the client is polled."""
        if error.code() in _REFUSED or _TLS_ALERT in error.str():
            self.refusal = error
        elif error.code() not in _WITHOUT_REASON:
            self._last = error

    def clear(self) -> None:
        """Forget what was before a request that succeeded."""
        self.refusal = self._last = None

    @property
    def reason(self) -> str:
        """The end of a sentence about a request without an answer; empty if no connection has failed."""
        return f" (last failure of a connection: {self._last.str()})" if self._last else ""
