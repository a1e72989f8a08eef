"""Tokens by which a change is known to come from a page of ours, and the user who asks for it.

A browser sends Airflow's cookie with the requests of other sites as well, so the login alone shows nothing.
"""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from secrets import token_bytes
from typing import Annotated, Final

import anyio.to_thread
from fastapi import Depends, Request

from workorders.core.postgres.connection import Connection, fetch_row
from workorders.core.postgres.named_queries import load_queries
from workorders.pages.access import CurrentViewer, Viewer
from workorders.pages.problems import ForgedRequestError
from workorders.pages.site import CurrentSite, Site

_QUERIES = load_queries("workorders.pages", "sql/csrf.sql")

FIELD: Final = "csrf"
"""Field of every form that changes something."""
LIFETIME: Final = timedelta(hours=12)
_TIME_BYTES: Final = 8
_TOKEN_BYTES: Final = _TIME_BYTES + 32
_AGAIN: Final = "Nothing was changed. Load the page again, and repeat what you did."


def form_key(connection: Connection) -> bytes:
    """Return the key that signs the tokens, which all API servers share."""
    return bytes(fetch_row(connection, _QUERIES["form_key"], {})[0])


def new_token(key: bytes, user_id: str, now: datetime) -> str:
    """Return a token of a user.

    Each one looks different, although it means the same: Airflow compresses pages, and the size of a page that repeats
    what a stranger searches for would reveal a constant token little by little.
    """
    issued = int(now.timestamp()).to_bytes(_TIME_BYTES, "big")
    content = issued + _signature(key, user_id, issued)
    pad = token_bytes(len(content))
    return urlsafe_b64encode(pad + _xor(content, pad)).decode()


def require_token(key: bytes, user_id: str, given: str, now: datetime) -> None:
    """Refuse a token that is not one of this user, or is too old.

    Raises:
        ForgedRequestError: it is not, or is.
    """
    try:
        decoded = urlsafe_b64decode(given.encode("ascii"))
    except ValueError:
        decoded = b""
    if len(decoded) != 2 * _TOKEN_BYTES:
        raise ForgedRequestError(f"The form has no token of this page. {_AGAIN}")
    content = _xor(decoded[:_TOKEN_BYTES], decoded[_TOKEN_BYTES:])
    issued = content[:_TIME_BYTES]
    age = now.timestamp() - int.from_bytes(issued, "big")
    is_own = hmac.compare_digest(content[_TIME_BYTES:], _signature(key, user_id, issued))
    if not is_own or not -LIFETIME.total_seconds() < age < LIFETIME.total_seconds():
        raise ForgedRequestError(f"The form is of another user, or older than 12 h. {_AGAIN}")


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
    key = await anyio.to_thread.run_sync(_key_of, site)
    require_token(key, viewer.id, str(given), datetime.now(UTC))
    return viewer


CurrentActor = Annotated[Viewer, Depends(current_actor)]


def _key_of(site: Site) -> bytes:
    with site.reading() as connection:
        return form_key(connection)


def _signature(key: bytes, user_id: str, issued: bytes) -> bytes:
    return hmac.digest(key, issued + user_id.encode(), "sha256")


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
