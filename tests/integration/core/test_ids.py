from itertools import islice

import pytest

from workorders.core.ids import increasing_ids
from workorders.core.postgres.connection import Connection

pytestmark = pytest.mark.integration


def test_postgres_sorts_ids_as_they_were_made_and_reads_their_time(connection: Connection) -> None:
    ids = [id_.hex() for id_ in islice(increasing_ids(1_700_000_000_123), 1000)]
    rows = connection.execute(
        """
        SELECT place, uuid_extract_version(id), extract(epoch FROM uuid_extract_timestamp(id)) * 1000
        FROM unnest(%s::uuid[]) WITH ORDINALITY AS given (id, place)
        ORDER BY id
        """,
        (ids,),
    ).fetchall()
    assert rows == [(place, 7, 1_700_000_000_123) for place in range(1, 1001)]
