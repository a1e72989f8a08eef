"""The definition of a webhook: what its file may say."""

import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from workorders.core.definitions.fields import (
    BYTES_SCHEMA,
    DAY_SECONDS,
    KIB,
    MIB,
    SECONDS_OR_EVER_SCHEMA,
    SECONDS_SCHEMA,
    byte_count,
    one_of,
    seconds,
    seconds_or_ever,
    whole_number,
)
from workorders.core.definitions.trigger import TriggerDefinition
from workorders.core.secret_headers import carries_a_secret
from workorders.webhook.authentication import PUBLIC, Authentication, HeaderName

_LONGEST_REPLY_SECONDS: Final = 300.0
_PATH: Final = re.compile(r"[a-z0-9][a-z0-9_-]*(/[a-z0-9][a-z0-9_-]*)*")
_LONGEST_PATH: Final = 200

DEFAULT_HEADERS: Final = ("content-type", "user-agent", "traceparent", "tracestate", "idempotency-key")


def _path(value: Any, info: ValidationInfo) -> str:
    if value == "":
        return str(info.data.get("name", ""))
    if not isinstance(value, str) or len(value) > _LONGEST_PATH or not _PATH.fullmatch(value):
        raise ValueError(
            f"expected small letters, digits, - and _, and / between parts, such as shop/orders, got {value!r}."
        )
    return value


def _headers(value: Any, info: ValidationInfo) -> tuple[str, ...]:
    form = "a list of header names such as [content-type, traceparent]"
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name.strip() for name in value):
        raise ValueError(f"expected {form}, got {value!r}.")
    names = tuple(name.lower() for name in value)
    for name in names:
        if carries_a_secret(name) or name in getattr(info.data.get("authentication"), "secret_headers", ()):
            raise ValueError(f"the header {name} may carry a secret, and is never kept.")
    return names


def _reply(value: Any, info: ValidationInfo) -> Any:
    """Refuse to answer with an output that another caller's request made."""
    authentication, idempotency = info.data.get("authentication"), info.data.get("idempotency")
    if value == "at_once" or authentication is None or idempotency is None:
        return value
    if authentication == PUBLIC:
        raise ValueError(
            "expected at_once for a public webhook with idempotency, because a stranger who guesses a key would get "
            "the output of another caller's request. Remove idempotency, or give authentication a type."
        )
    if not authentication.proves(str(idempotency.key)):
        raise ValueError(
            f"expected at_once with idempotency by {idempotency.key}, which the signature does not cover: a stranger "
            "who repeats a signed request with another key would get the output of another request. Choose a key in "
            "the body, or name its header in authentication.signed_headers."
        )
    return value


def _per_second(value: Any) -> float | None:
    if value is None:
        return None
    most = 1_000_000
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise ValueError(f"expected a number of requests a second above 0, or null for no limit, got {value!r}.")
    return float(value)


class WebhookTriggerDefinition(TriggerDefinition):
    """A source of work orders: every POST to a path of Airflow's API server."""

    type: Annotated[Literal["webhook"], one_of("webhook")] = "webhook"
    """Type of the trigger."""
    path: Annotated[str, BeforeValidator(_path), Field(validate_default=True)] = ""
    """Where to send to, below `/workorders/hooks/`; the trigger's name if not given. No two webhooks have one path."""
    enabled: bool = True
    """Whether it takes requests. While it does not, callers are told to come again later."""
    authentication: Authentication
    """Who may call: `public` for everybody, or a mapping with the type `api_key`, `basic` or `hmac`."""
    headers: Annotated[tuple[HeaderName, ...], BeforeValidator(_headers)] = DEFAULT_HEADERS
    """Headers that go into the request of the work order. A header that may carry a secret is refused."""

    max_body_bytes: Annotated[int, byte_count(1, 32 * MIB), BYTES_SCHEMA] = 1024 * KIB
    """Largest body; larger ones are refused with 413."""
    key_window: Annotated[float | None, seconds_or_ever(1), SECONDS_OR_EVER_SCHEMA] = 30 * DAY_SECONDS
    """How long an `Idempotency-Key` is known (seconds), from its first request; null for ever."""
    rate_limit_per_second: Annotated[float | None, BeforeValidator(_per_second)] = None
    """Most requests a second that all API servers take together; more are refused with 429. No limit if not given."""
    rate_burst: Annotated[int, whole_number(1, 1_000_000), Field(json_schema_extra={"minimum": 1})] = 10
    """Requests that may come at once, beside `rate_limit_per_second`."""

    reply: Annotated[
        Literal["at_once", "after_completion"], one_of("at_once", "after_completion"), AfterValidator(_reply)
    ] = "at_once"
    """When to answer: once the work order is there, or once it is finished, with its output."""
    reply_timeout: Annotated[float, seconds(0.1, _LONGEST_REPLY_SECONDS), SECONDS_SCHEMA] = 30.0
    """Longest time (seconds) that `reply: after_completion` waits, at most five minutes; the answer is 202 then."""
    reply_errors: bool | None = None
    """Whether the answer of `reply: after_completion` has the type and the text of a run's exception. If not given,
    it has them unless the webhook is public."""
    success_code: Annotated[int, whole_number(200, 299)] = 200
    """Code of the answer when the work order succeeded, with `reply: after_completion`."""
    failure_code: Annotated[int, whole_number(400, 599)] = 500
    """Code of the answer when it ended in another way, with `reply: after_completion`."""

    @property
    def is_public(self) -> bool:
        """Whether everybody may call."""
        return self.authentication == PUBLIC

    @property
    def tells_errors(self) -> bool:
        """Whether callers learn what a run's exception says."""
        return not self.is_public if self.reply_errors is None else self.reply_errors

    @property
    def knows_callers_by_headers(self) -> bool:
        """Whether a caller is known before its body is read."""
        return self.authentication != PUBLIC and not self.authentication.needs_body

    @property
    def requires_json_type(self) -> bool:
        """Whether a body must say that it is JSON: a browser then asks first, and sends no password for other pages."""
        return self.authentication != PUBLIC and self.authentication.type == "basic"

    def proves_key(self) -> bool:
        """Tell whether the `Idempotency-Key` of a request is known to be the caller's own."""
        return self.authentication != PUBLIC and self.authentication.proves("key")
