"""How a webhook refuses a request."""

from collections.abc import Mapping

from workorders.core.exceptions import WorkOrdersError


class RefusedError(WorkOrdersError):
    """Nothing was created, and the caller learns why.

    Args:
        status: HTTP's code.
        code: a short kebab-case word for programs.
        reason: one plain sentence for people. No secret, and no data of the body.
        headers: to answer with.
    """

    def __init__(self, status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.code = code
        self.reason = reason
        self.headers = dict(headers or {})


class TryAgainError(RefusedError):
    """What the caller asks for cannot be done now, and can later."""

    def __init__(self, code: str, reason: str, *, seconds: int, status: int = 503) -> None:
        super().__init__(status, code, reason, {"Retry-After": str(seconds)})
