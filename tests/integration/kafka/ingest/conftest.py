"""Messages of a range in both forms that an ingest takes."""

from collections.abc import Iterable
from typing import Any

import pytest

from support.item_blocks import in_blocks
from workorders.core.creation.work_orders import Created
from workorders.core.items import Item
from workorders.core.postgres.connection import Connection
from workorders.kafka.ingest import transaction
from workorders.kafka.ingest.attempt import Attempt


@pytest.fixture(params=["items", "blocks"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both forms of messages must do the same."""
    if request.param == "blocks":
        monkeypatch.setattr(request.module, "ingest", _ingest_blocks)


def _ingest_blocks(connection: Connection, made: Attempt, items: Iterable[Item], *proofs: Any) -> Created:
    return transaction.ingest(connection, made, in_blocks(items), *proofs)
