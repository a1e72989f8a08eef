"""What every form that changes something has: a token of the page, its origin, and what the user typed.

A browser sends Airflow's cookie with the requests of other sites as well, so the login alone shows nothing.
"""

from secrets import token_hex
from typing import Annotated, Final

from fastapi import Form, HTTPException, Request
from itsdangerous import BadData, URLSafeTimedSerializer
from pydantic import BeforeValidator

FIELD: Final = "csrf"
"""Field of every form that changes something."""
LIFETIME_SECONDS: Final = 12 * 3_600
_SALT: Final = "workorders-forms"
"""Keeps what Airflow signs by the same key from being a token, and the other way round."""
_AGAIN: Final = "Nothing was changed. Load the page again, and repeat what you did."


def new_token(key: str, user_id: str) -> str:
    """Return a token of a user, signed by the key that all API servers share.

    Each one has another signature: Airflow compresses pages, and the size of a page that repeats what a stranger
    searches for would reveal a constant one little by little.
    """
    return URLSafeTimedSerializer(key, _SALT).dumps([user_id, token_hex(8)])


def require_token(key: str, user_id: str, given: str) -> None:
    """Refuse a token that is not one of this user, or is too old."""
    try:
        owner, _ = URLSafeTimedSerializer(key, _SALT).loads(given, max_age=LIFETIME_SECONDS)
    except BadData:
        owner = None
    if owner != user_id:
        raise HTTPException(
            403, f"The form has no token of this page, or is of another user, or older than 12 h. {_AGAIN}"
        )


def require_own_origin(request: Request, configured: str | None) -> None:
    """Refuse a request that another site has made the browser send.

    Browsers report it by `Sec-Fetch-Site`, but only over HTTPS and to the machine itself; otherwise the origin counts.
    `configured` is Airflow's own origin by its configuration, which a proxy may hide; None if it has none.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise HTTPException(403, f"The request comes from another site. {_AGAIN}")
        return
    own = {configured or f"{request.url.scheme}://{request.url.netloc}"}
    if request.headers.get("origin") not in own:
        raise HTTPException(403, f"The request comes from another site, or does not say from which. {_AGAIN}")


Reason = Annotated[str, BeforeValidator(lambda typed: " ".join(typed.split())), Form(min_length=1, max_length=1_000)]
"""Why a change is made, as it is recorded: in one line."""


def require_number(typed: str, number: int, *, where: str, counted: str) -> None:
    """Accept the number that a page has shown, with or without commas: a person who types it has read it."""
    if typed.strip().replace(",", "") != str(number):
        raise HTTPException(
            422, f"{where}: nothing was changed, because the number of {counted} ({number:,}) was not typed."
        )
