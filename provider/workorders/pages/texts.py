"""Hides texts that may quote an input, such as an error, from users without the right to inputs or to logs."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from workorders.pages.access import Right, Viewer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T", bound="DataclassInstance")

HIDDEN: Final = "(hidden: requires the right to read XComs or task logs)"
_CODE: Final = re.compile(r"\[WO-[A-Z-]+\]")
"""Of this package's errors; it leads to the page that explains them, and quotes nothing."""


def may_read_texts(viewer: Viewer, dag_ids: Iterable[str]) -> bool:
    """Return whether a user may read the texts of each of these Dags."""
    return all(viewer.may(Right.READ_INPUT, dag_id) or viewer.may(Right.READ_LOG, dag_id) for dag_id in dag_ids)


def hide(record: _T, *names: str, unless: bool) -> _T:
    """Return a record whose texts only show that there are some.

    Args:
        record: has texts that may quote an input.
        names: of its fields with the texts; other values than texts and bytes stay.
        unless: whether the user may read them.
    """
    return record if unless else replace(record, **{name: _hidden(getattr(record, name)) for name in names})


def _hidden(text: object) -> object:
    if isinstance(text, bytes):
        return HIDDEN.encode()
    return " ".join((HIDDEN, *_CODE.findall(text))) if isinstance(text, str) else text
