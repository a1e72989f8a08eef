"""Named SQL from `.sql` files, so that SQL reads as SQL and Python never glues it together."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import LiteralString, cast

_NAME = re.compile(r"^-- name: (?P<name>[a-z_]+)$", re.MULTILINE)


@cache
def load_queries(package: str, file: str) -> Mapping[str, LiteralString]:
    """Return the queries of `file` in `package`, by name.

    A query starts with a line `-- name: the_name` and ends before the next such line. The text comes from our own
    package and from nowhere else, which is what psycopg's LiteralString asks for.

    Raises:
        ValueError: the file holds no named query, or one name twice.
    """
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    names, bodies = parts[::2], parts[1::2]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"{package}/{file} needs queries with unique names, found: {', '.join(names) or 'none'}")
    return MappingProxyType(
        {name: cast("LiteralString", body.strip()) for name, body in zip(names, bodies, strict=True)}
    )
