"""A trigger that shares no work order, run, or workflow with those of other tests."""

import pytest

from workorders.core import triggers
from workorders.core.postgres.connection import Connection
from workorders.core.triggers import Trigger


@pytest.fixture
def trigger(connection: Connection, name: str) -> Trigger:
    """A trigger of a type that announces nothing, with its own workflow: claims of one test take no other's."""
    trigger = triggers.register(connection, name=name, type_="plain", workflow=name, definition={})
    connection.commit()
    return trigger
