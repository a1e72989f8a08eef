"""Rights and the audit log, as Airflow's API server has them: nothing of it is part of the public interface.

Airflow may change it in any release, so only the pages import this module. If an import fails, their application is
not made, and every request fails.
"""

from collections.abc import Collection
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api import security
from airflow.models.dag import DagModel
from airflow.models.log import Log
from airflow.sdk import conf
from airflow.utils.session import create_session
from fastapi import Request

__all__ = ["BaseUser", "DagAccessEntity"]


async def get_user(request: Request) -> BaseUser:
    """Return the user of a request.

    Raises:
        fastapi.HTTPException: the request has no login (status 401), or one that is not valid.
    """
    return await security.get_user(request, None, await security.bearer_scheme(request))


def may_see_plugins(user: BaseUser) -> bool:
    """Return whether a user may see the pages of plugins."""
    return get_auth_manager().is_authorized_view(access_view=AccessView.PLUGINS, user=user)


def has_right(user: BaseUser, method: Any, entity: DagAccessEntity | None, dag_id: str) -> bool:
    """Return whether a user has a right, such as "GET", to a part of a Dag; without a part, to the Dag itself.

    With teams, no user has one to a Dag that Airflow does not know: its team is unknown, and none would be compared.
    """
    has_teams = conf.getboolean("core", "multi_team", fallback=False)
    if has_teams and DagModel.get_current(dag_id) is None:
        return False
    team = DagModel.get_team_name(dag_id) if has_teams else None
    details = DagDetails(id=dag_id, team_name=team)
    return get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user)


def write_audit_log(event: str, dag_ids: Collection[str], user: str, extra: str) -> None:
    """Write an entry for each Dag into the audit log, as Airflow does with the changes through its own pages."""
    with create_session(scoped=False) as session:
        for dag_id in dag_ids:
            session.add(Log(event=event, dag_id=dag_id, owner=user, owner_display_name=user, extra=extra))
