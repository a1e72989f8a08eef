"""Who asks, and what that user may see and do: asks Airflow's auth manager.

Airflow does not protect the applications of plugins, so every page depends on this module. Its imports are internal to
Airflow: if one fails, the application is not made, and every request fails.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any

import anyio.to_thread
from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api import security
from airflow.models.dag import DagModel
from airflow.sdk.configuration import conf
from fastapi import Depends, HTTPException, Request

from workorders.pages.problems import ForbiddenError, NotLoggedInError


class Right(Enum):
    """What a page or an action takes: a method and a part of a Dag, as for the same in Airflow."""

    READ = ("GET", DagAccessEntity.RUN)
    """States, times, and counts; as reading Dag runs."""
    READ_INPUT = ("GET", DagAccessEntity.XCOM)
    """Inputs, outputs, and raw values; as reading XComs."""
    READ_LOG = ("GET", DagAccessEntity.TASK_LOGS)
    ACT = ("POST", DagAccessEntity.RUN)
    """Rerun, cancel, and decide; as triggering a Dag run."""
    REPLAY = ("PUT", DagAccessEntity.TASK_INSTANCE)
    """As clearing a task."""
    RELEASE = ("PUT", DagAccessEntity.RUN)
    """As changing a Dag run."""
    PURGE = ("DELETE", DagAccessEntity.RUN)
    """As deleting a Dag run."""
    PAUSE = ("PUT", None)


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

    def may(self, right: Right, dag_id: str) -> bool:
        """Return whether the user has a right to a Dag."""
        method, entity = right.value
        has_teams = conf.getboolean("core", "multi_team", fallback=False)
        team = DagModel.get_team_name(dag_id) if has_teams else None
        manager: Any = get_auth_manager()
        return bool(
            manager.is_authorized_dag(
                method=method, access_entity=entity, details=DagDetails(id=dag_id, team_name=team), user=self.user
            )
        )

    def may_all(self, right: Right, dag_ids: Iterable[str]) -> bool:
        """Return whether the user has a right to every one of these Dags."""
        return all(self.may(right, dag_id) for dag_id in dag_ids)

    def require(self, right: Right, dag_id: str) -> None:
        """Refuse a user without a right to a Dag, or without the right to read it, which every other one needs.

        Raises:
            ForbiddenError: the user does not have one of them; the sentence names it.
        """
        for needed in dict.fromkeys((Right.READ, right)):
            if not self.may(needed, dag_id):
                method, entity = needed.value
                raise ForbiddenError(
                    f"Nothing was read or changed. This takes the right to {_VERBS[method]} {_PARTS[entity]} {dag_id}. "
                    f"Ask for it where the roles of your Airflow are managed; its auth manager is asked for {method} "
                    f"on {'the Dag' if entity is None else entity.name}."
                )


_VERBS = {"GET": "read", "POST": "create", "PUT": "change", "DELETE": "delete"}
_PARTS = {
    None: "the Dag",
    DagAccessEntity.RUN: "Dag runs of",
    DagAccessEntity.XCOM: "XComs of",
    DagAccessEntity.TASK_LOGS: "task logs of",
    DagAccessEntity.TASK_INSTANCE: "task instances of",
}


async def current_viewer(request: Request) -> Viewer:
    """Return the user of a request, who may see plugins.

    Raises:
        NotLoggedInError: the request has no login, or one that has expired.
        ForbiddenError: its login is not valid, or the user may not see plugins.
    """
    try:
        user = await security.get_user(request, None, await security.bearer_scheme(request))
    except HTTPException as refusal:
        if refusal.status_code == NotLoggedInError.status:
            raise NotLoggedInError("Nothing was read or changed. Log in to Airflow again.") from refusal
        raise ForbiddenError("Nothing was read or changed. Airflow refuses this login.") from refusal
    if not await anyio.to_thread.run_sync(_may_see_plugins, user):
        raise ForbiddenError("Nothing was read or changed. This takes the right to see the view Plugins of Airflow.")
    return Viewer(user)


def _may_see_plugins(user: BaseUser) -> bool:
    manager: Any = get_auth_manager()
    return bool(manager.is_authorized_view(access_view=AccessView.PLUGINS, user=user))


CurrentViewer = Annotated[Viewer, Depends(current_viewer)]
