"""The fields of a webhook trigger's file."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from workorders.core.definitions.fields import DAY_SECONDS, KIB, Whole, byte_count, expecting, seconds
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.items import MAX_BODY_BYTES
from workorders.core.secrets import is_secret_header
from workorders.webhook.authentication import PUBLIC, Authentication, HeaderName, SignatureMethod

_MAX_REPLY_SECONDS: Final = 300
_PART: Final = "[a-z0-9][a-z0-9_-]*"

_KEY_HEADER: Final = "idempotency-key"
"""Header with which a caller identifies its event, unless its authentication method has one."""
DEFAULT_HEADERS: Final = ("content-type", "user-agent", "traceparent", "tracestate", _KEY_HEADER)


def _path(value: str, info: ValidationInfo) -> str:
    return value or str(info.data.get("name", ""))


def _headers(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    for name in names:
        if is_secret_header(name) or name == getattr(info.data.get("authentication"), "header", None):
            raise ValueError(f"the header {name} may carry a secret and is never stored.")
    return names


class WebhookTriggerDefinition(TriggerDefinition):
    """A source of work orders: every POST to a path of Airflow's API server."""

    request_fields = frozenset({"method", "path", "headers", "remote_address", "received_at", "key"})
    has_streams = False

    type: Literal["webhook"] = "webhook"
    """Type of the trigger."""
    path: Annotated[
        str,
        Field(pattern=f"^({_PART}(/{_PART})*)?$", max_length=200, validate_default=True),
        expecting("small letters, digits, - and _, and / between parts, such as shop/orders"),
        AfterValidator(_path),
    ] = ""
    """Path of the URL below `/workorders/webhooks/`, unique; the trigger's name if not given."""
    enabled: bool = True
    """Whether it accepts requests. While it is false, the answer is to retry later."""
    authentication: Authentication
    """Who may call: `public` for everybody, or a mapping with the type `api_key`, `basic`, `hmac`, `standard_webhooks`,
    `stripe` or `slack`."""
    headers: Annotated[
        tuple[HeaderName, ...],
        expecting("a list of header names such as [content-type, traceparent]"),
        AfterValidator(_headers),
    ] = DEFAULT_HEADERS
    """Headers that the metadata of the work order contains. A header that may carry a secret is refused."""

    max_body_bytes: Annotated[int, byte_count(1, MAX_BODY_BYTES)] = 1024 * KIB
    """Largest body; larger ones are refused with 413."""
    idempotency_key_window: Annotated[float, seconds(1)] | None = 30 * DAY_SECONDS
    """How long an `Idempotency-Key` or the id of a Standard Webhook is known, from its first request;
    indefinitely if null."""

    reply: Literal["at_once", "after_completion"] = "at_once"
    """When to answer: once the work order is created, or once it has finished, with its output. A repeated request gets
    the output only if callers send their secret with it (`api_key`, `basic`)."""
    reply_timeout: Annotated[float, seconds(0.1, _MAX_REPLY_SECONDS)] = 30.0
    """Maximum time that `reply: after_completion` waits, at most five minutes; then the answer is 202."""
    reply_with_errors: bool | None = None
    """Whether the answer of `reply: after_completion` contains the type and the text of a run's exception. By default
    it does unless the webhook is public."""
    success_code: Whole = Field(default=200, ge=200, le=299)
    """Status code of the answer if the work order succeeded, with `reply: after_completion`."""
    failure_code: Whole = Field(default=500, ge=400, le=599)
    """Status code of the answer if it ended otherwise, with `reply: after_completion`."""

    def instead_of_header(self, name: str, /) -> str | None:
        """Return what to write in place of a header that no request has, by its name in small letters; else None."""
        kept = f"one of the headers that a work order contains ({', '.join(self.headers)}); add it to `headers`"
        return None if name in self.headers else kept

    @property
    def signature(self) -> SignatureMethod | None:
        """The method, if callers sign the body."""
        return self.authentication if isinstance(self.authentication, SignatureMethod) else None

    @property
    def key_header(self) -> str:
        """Header with which a caller identifies its event, in lower case."""
        return str(getattr(self.authentication, "key_header", _KEY_HEADER))

    def key_of(self, headers: Mapping[str, str]) -> str | None:
        """Return by what a caller identifies its event; None if its header is missing or empty."""
        return headers.get(self.key_header) or None

    @property
    def tells_errors(self) -> bool:
        """Whether callers get the text of a run's exception."""
        return self.authentication != PUBLIC if self.reply_with_errors is None else self.reply_with_errors

    @property
    def repeats_outputs(self) -> bool:
        """Whether a repeated request gets the output of the first one, which only its caller may ask for.

        It has to send the secret: a stranger can repeat a signed request with another idempotency key.
        """
        return self.authentication != PUBLIC and self.signature is None
