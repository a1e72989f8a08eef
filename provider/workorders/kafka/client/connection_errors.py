"""Why a client's connections fail: librdkafka reports that to a callback alone, and its requests just time out."""

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
