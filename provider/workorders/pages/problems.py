"""Why a page or an action is refused: each has a status of HTTP, and a sentence for the person who asked."""

from workorders.core.exceptions import WorkOrdersError


class PageRefusedError(WorkOrdersError):
    """A page or an action is refused."""

    status = 400
    title = "Refused"


class NotLoggedInError(PageRefusedError):
    """The request has no valid login of Airflow."""

    status = 401
    title = "Your session has ended"


class ForbiddenError(PageRefusedError):
    """The user has no right to this."""

    status = 403
    title = "Not allowed"


class ForgedRequestError(PageRefusedError):
    """A change was requested without the token of a page of ours, or from another site."""

    status = 403
    title = "Not sent from this page"


class NotFoundError(PageRefusedError):
    """There is no page, or none that the user may read, at this address."""

    status = 404
    title = "Not found"


class WrongInputError(PageRefusedError):
    """A field or a parameter of the address has a wrong form."""

    status = 422
    title = "Wrong input"


class OutcomeUnknownError(PageRefusedError):
    """A change was made or was not: the answer to its commit was lost."""

    status = 503
    title = "Not known"


class BusyError(PageRefusedError):
    """The server does as much of this as it can at the moment."""

    status = 503
    title = "Busy"


class ChangedMeanwhileError(PageRefusedError):
    """What a person saw and decided about has changed since."""

    status = 409
    title = "Changed meanwhile"
