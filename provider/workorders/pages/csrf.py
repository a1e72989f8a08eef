"""Tokens by which a change is known to come from a page of ours, and the user who asks for it.

A browser sends Airflow's cookie with the requests of other sites as well, so the login alone shows nothing.
"""

from secrets import token_hex
from typing import Annotated, Final

from anyio.to_thread import run_sync
from fastapi import Depends, Request
from itsdangerous import BadData, URLSafeTimedSerializer

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.pages.access import CurrentViewer, Viewer
from workorders.pages.problems import ForgedRequestError
from workorders.pages.site import CurrentSite, Site
from workorders.pages.threads import OF_PAGES

_QUERIES = load_queries("workorders.pages", "sql/csrf.sql")

FIELD: Final = "csrf"
"""Field of every form that changes something."""
LIFETIME_SECONDS: Final = 12 * 3_600
_AGAIN: Final = "Nothing was changed. Load the page again, and repeat what you did."


def form_token(connection: Connection, user_id: str) -> str:
    """Return a new token of a user, signed by the key that all API servers share."""
    return new_token(_form_key(connection), user_id)


def new_token(key: bytes, user_id: str) -> str:
    """Return a token of a user.

    Each one has another signature: Airflow compresses pages, and the size of a page that repeats what a stranger
    searches for would reveal a constant one little by little.
    """
    return URLSafeTimedSerializer(key).dumps([user_id, token_hex(8)])


def require_token(key: bytes, user_id: str, given: str) -> None:
    """Refuse a token that is not one of this user, or is too old.

    Raises:
        ForgedRequestError: it is not, or is.
    """
    try:
        owner, _ = URLSafeTimedSerializer(key).loads(given, max_age=LIFETIME_SECONDS)
    except BadData:
        owner = None
    if owner != user_id:
        raise ForgedRequestError(
            f"The form has no token of this page, or is of another user, or older than 12 h. {_AGAIN}"
        )


def require_own_origin(request: Request, configured: str | None) -> None:
    """Refuse a request that another site has made the browser send.

    Browsers report it by `Sec-Fetch-Site`, but only over HTTPS and to the machine itself; otherwise the origin counts.

    Args:
        request: what is answered.
        configured: Airflow's own origin by its configuration, which a proxy may hide; None if it has none.

    Raises:
        ForgedRequestError: it comes from elsewhere, or nothing shows from where it comes.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise ForgedRequestError(f"The request comes from another site. {_AGAIN}")
        return
    own = {configured or f"{request.url.scheme}://{request.url.netloc}"}
    if request.headers.get("origin") not in own:
        raise ForgedRequestError(f"The request comes from another site, or does not say from which. {_AGAIN}")


async def current_actor(request: Request, site: CurrentSite, viewer: CurrentViewer) -> Viewer:
    """Return the user who changes something by a form of ours.

    Raises:
        ForgedRequestError: another site made the browser send the request.
    """
    require_own_origin(request, site.origin)
    given = (await request.form()).get(FIELD, "")
    await run_sync(_require_token, site, viewer, str(given), limiter=OF_PAGES)
    return viewer


CurrentActor = Annotated[Viewer, Depends(current_actor)]


def _require_token(site: Site, viewer: Viewer, given: str) -> None:
    with site.reading() as connection:
        key = _form_key(connection)
    require_token(key, viewer.id, given)


def _form_key(connection: Connection) -> bytes:
    return bytes(fetch_row(connection, _QUERIES["form_key"], {})[0])
