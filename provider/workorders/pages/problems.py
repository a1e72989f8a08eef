"""Why a page or an action is refused: each has a status of HTTP, and a sentence for the person who asked."""

from workorders.core.exceptions import WorkOrdersError


class PageRefusedError(WorkOrdersError):
    """A page or an action is refused."""

    status: int
    title: str

    def __init_subclass__(cls, *, status: int, title: str) -> None:
        super().__init_subclass__()
        cls.status, cls.title = status, title


class NotLoggedInError(PageRefusedError, status=401, title="Your session has ended"):
    """The request has no valid login of Airflow."""


class ForbiddenError(PageRefusedError, status=403, title="Not allowed"):
    """The user has no right to this."""


class ForgedRequestError(PageRefusedError, status=403, title="Not sent from this page"):
    """A change was requested without the token of a page of ours, or from another site."""


class NotFoundError(PageRefusedError, status=404, title="Not found"):
    """There is no page, or none that the user may read, at this address."""


class WrongInputError(PageRefusedError, status=422, title="Wrong input"):
    """A field or a parameter of the address has a wrong form."""


class OutcomeUnknownError(PageRefusedError, status=503, title="Not known"):
    """A change was made or was not: the answer to its commit was lost."""


class BusyError(PageRefusedError, status=503, title="Busy"):
    """The server does as much of this as it can at the moment."""


class ChangedMeanwhileError(PageRefusedError, status=409, title="Changed meanwhile"):
    """What a person saw and decided about has changed since."""
