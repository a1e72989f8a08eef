"""Named SQL from `.sql` files, so that SQL reads as SQL and Python never glues it together."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import LiteralString

_HEAD = re.compile(r"^-- (name|block): ([a-z_]+)$", re.MULTILINE)
_USE = re.compile(r"^ *-- use: ([a-z_]+)$", re.MULTILINE)


@cache
def load_queries(package: str, file: str) -> Mapping[str, LiteralString]:
    """Return the queries of `file` in `package`, by name.

    A query starts with a line `-- name: the_name` and ends before the next such line. What several queries of a file
    have in common stands once, under `-- block: its_name`, and takes the place of each line `-- use: its_name`; a block
    may use blocks that stand before it. The text comes from our own package and from nowhere else, which is what
    psycopg's LiteralString asks for.

    Raises:
        ValueError: the file holds no named query, one name twice, or uses a block that it does not hold.
    """
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _HEAD.split(text)[1:]
    kinds, names, bodies = parts[::3], parts[1::3], [body.strip("\n ") for body in parts[2::3]]
    if "name" not in kinds or len(set(names)) != len(names):
        raise ValueError(f"{package}/{file} needs queries with unique names, found: {', '.join(names) or 'none'}")
    blocks: dict[str, str] = {}
    queries: dict[str, LiteralString] = {}
    try:
        for kind, name, body in zip(kinds, names, bodies, strict=True):
            whole = _USE.sub(lambda use: blocks[use[1]], body)
            (blocks if kind == "block" else queries)[name] = whole
    except KeyError as missing:
        raise ValueError(f"{package}/{file} uses a block that does not stand before: {missing}") from None
    return MappingProxyType(queries)
