"""What a refresh of the history updates."""

import pytest

from local_stack.stack import LocalStack
from support.executing import Executing
from support.outbox import new_outbox
from workorders.core.history import state_counts
from workorders.core.maintenance.refresh import refresh_history
from workorders.core.postgres.connection import connect

pytestmark = pytest.mark.integration


def test_a_refresh_counts_by_state_if_the_counts_are_due(stack: LocalStack, name: str) -> None:
    own = new_outbox(stack).database_url
    Executing(own, name).create([{}] * 3)
    with connect(own) as connection:
        assert refresh_history(connection).counted
        assert state_counts.latest_counts(connection, workflow=name).by_state == {"pending": 3}
        assert not refresh_history(connection).counted
