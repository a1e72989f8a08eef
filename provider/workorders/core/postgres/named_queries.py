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
def load_queries(package: str, file: str, *, blocks_from: str | None = None) -> Mapping[str, LiteralString]:
    """Return the queries of `file` in `package`, by name.

    A query starts with a line `-- name: the_name` and ends before the next such line. A text that several queries
    contain is written once, under `-- block: its_name`. It replaces each line `-- use: its_name`; a block may use the
    blocks before it, and those of the file `blocks_from`, whose queries are not returned. The text comes from our own
    package only, as psycopg's LiteralString requires.
    """
    blocks = {} if blocks_from is None else dict(_parse(package, blocks_from, {})[0])
    return MappingProxyType(_parse(package, file, blocks)[1])


def _parse(
    package: str, file: str, shared: Mapping[str, LiteralString]
) -> tuple[dict[str, LiteralString], dict[str, LiteralString]]:
    """Return the blocks and the queries of a file."""
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    parts = _HEAD.split(text)[1:]
    kinds, names, bodies = parts[::3], parts[1::3], [body.strip("\n ") for body in parts[2::3]]
    if "name" not in kinds or len(set(names)) != len(names):
        raise ValueError(f"{package}/{file} needs queries with unique names, found: {', '.join(names) or 'none'}")
    blocks: dict[str, LiteralString] = dict(shared)
    queries: dict[str, LiteralString] = {}
    try:
        for kind, name, body in zip(kinds, names, bodies, strict=True):
            whole = _USE.sub(lambda use: blocks[use[1]], body)
            (blocks if kind == "block" else queries)[name] = whole
    except KeyError as missing:
        raise ValueError(f"{package}/{file} uses a block that is not defined before: {missing}") from None
    return blocks, queries
