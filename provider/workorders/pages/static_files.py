"""The script, the styles, and htmx, at addresses that contain a hash of them, so that browsers keep each forever."""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Response

from workorders.pages.problems import NotFoundError

TYPES: Final = {
    "pages.css": "text/css; charset=utf-8",
    "pages.js": "text/javascript; charset=utf-8",
    "theme.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icon-dark.svg": "image/svg+xml",
}
_HASH_DIGITS: Final = 16
_UNCHANGED: Final = "unchanged"
"""In place of the hash, for the icon that Airflow's menu shows."""

router = APIRouter()


@cache
def content(name: str) -> bytes:
    """Return a static file."""
    return files("workorders.pages").joinpath("static", name).read_bytes()


@cache
def path(name: str) -> str:
    """Return the path of a static file below that of the pages."""
    return f"/static/{hashlib.sha256(content(name)).hexdigest()[:_HASH_DIGITS]}/{name}"


def menu_icon_path(name: str) -> str:
    """Return the path of an icon that stays when its file changes."""
    return f"/static/{_UNCHANGED}/{name}"


@router.get("/static/{version}/{name}")
async def static_file(version: str, name: str) -> Response:
    """Return a static file; it holds nothing that is secret, so anyone may read it."""
    if name not in TYPES:
        raise NotFoundError("There is no such file.")
    if version == _UNCHANGED:
        keep = "public, max-age=3600"
    elif path(name) == f"/static/{version}/{name}":
        keep = "public, max-age=31536000, immutable"
    else:
        # During an upgrade, a page of a new server may ask an old one, whose file must not be kept under that address.
        keep = "no-store"
    return Response(content(name), media_type=TYPES[name], headers={"Cache-Control": keep})
