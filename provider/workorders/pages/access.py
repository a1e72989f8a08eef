"""Who asks, and what that user may see and do: asks Airflow's auth manager.

Airflow does not protect the applications of plugins, so every page depends on this module.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from http import HTTPStatus
from itertools import product
from typing import TYPE_CHECKING, Final, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import HTTPException, Request

from workorders.airflow import api_server
from workorders.airflow.api_server import BaseUser, DagAccessEntity

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OF_PAGES: Final = CapacityLimiter(8)
"""Threads for the pages alone: Airflow's API shares the others, which must stay free while a database hangs."""


class Right(Enum):
    """What a page or an action takes: a method and a part of a Dag, as for the same in Airflow, and both in words."""

    READ = ("GET", DagAccessEntity.RUN, "read Dag runs of")
    """States, times, and counts."""
    READ_INPUT = ("GET", DagAccessEntity.XCOM, "read XComs of")
    """Inputs, outputs, and raw values."""
    READ_LOG = ("GET", DagAccessEntity.TASK_LOGS, "read task logs of")
    ACT = ("POST", DagAccessEntity.RUN, "create Dag runs of")
    """Rerun, cancel, and decide."""
    REPLAY = ("PUT", DagAccessEntity.TASK_INSTANCE, "change task instances of")
    RELEASE = ("PUT", DagAccessEntity.RUN, "change Dag runs of")
    PURGE = ("DELETE", DagAccessEntity.RUN, "delete Dag runs of")


@dataclass(frozen=True)
class Viewer:
    """The user who asks."""

    user: BaseUser

    @property
    def id(self) -> str:
        """Return what identifies the user."""
        return str(self.user.get_id())

    @property
    def name(self) -> str:
        """Return the name that is recorded with what the user does."""
        return str(self.user.get_name())

    def may(self, right: Right, *dag_ids: str) -> bool:
        """Return whether the user has a right to each of these Dags."""
        method, entity, _ = right.value
        return all(api_server.has_right(self.user, method, entity, dag_id) for dag_id in dag_ids)

    def require(self, right: Right, *dag_ids: str) -> None:
        """Refuse a user without a right to each of these Dags, or to read it, which every other right needs."""
        for dag_id, needed in product(dag_ids, dict.fromkeys((Right.READ, right))):
            if not self.may(needed, dag_id):
                method, entity, words = needed.value
                raise HTTPException(
                    403,
                    "Nothing was read or changed. "
                    f"This requires the right to {words} {dag_id}. "
                    f"Ask for it where the roles of your Airflow are managed; its auth manager is asked for {method} "
                    f"on {entity.name}.",
                )


async def current_viewer(request: Request) -> Viewer:
    """Return the user of a request, who may see plugins.

    Raises:
        HTTPException: the request has no valid login, or the user may not see plugins.
    """
    try:
        user = await api_server.get_user(request)
    except HTTPException as refusal:
        if refusal.status_code == HTTPStatus.UNAUTHORIZED:
            raise HTTPException(401, "Nothing was read or changed. Log in to Airflow again.") from refusal
        raise HTTPException(403, "Nothing was read or changed. Airflow refuses this login.") from refusal
    if not await run_sync(api_server.may_see_plugins, user, limiter=OF_PAGES):
        raise HTTPException(
            403, "Nothing was read or changed. This requires the right to see the view Plugins of Airflow."
        )
    return Viewer(user)


_T = TypeVar("_T", bound="DataclassInstance")

_HIDDEN: Final = "(hidden: requires the right to read XComs or task logs)"
_CODE: Final = re.compile(r"\[WO-[A-Z-]+\]")
"""Of this package's errors; it leads to the page that explains them, and quotes nothing."""


def may_read_texts(viewer: Viewer, dag_ids: Iterable[str]) -> bool:
    """Return whether a user may read the texts of each of these Dags."""
    return all(viewer.may(Right.READ_INPUT, dag_id) or viewer.may(Right.READ_LOG, dag_id) for dag_id in dag_ids)


def hide(record: _T, *names: str, unless: bool) -> _T:
    """Return a record whose texts only show that there are some."""
    return record if unless else replace(record, **{name: _hidden(getattr(record, name)) for name in names})


def _hidden(text: object) -> object:
    if isinstance(text, bytes):
        return _HIDDEN.encode()
    if isinstance(text, tuple):
        return tuple(map(_hidden, text))
    return " ".join((_HIDDEN, *_CODE.findall(text))) if isinstance(text, str) else text
