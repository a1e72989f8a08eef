"""Which refusals of a pooler are answered by a connection without options; the integration tests have a PgBouncer."""

import psycopg
import pytest
from psycopg import conninfo

from workorders.core.postgres import session_limits

GIVEN = conninfo.make_conninfo(host="proxy.example", user="ann", options=session_limits.startup_options({}))


@pytest.mark.parametrize(
    "text",
    [
        "FATAL:  Feature not supported: RDS Proxy currently doesn\u2019t support command-line options.",
        "ERROR:  unsupported startup parameter in options: lock_timeout. Please use unpooled connection or"
        " remove this parameter from the startup package.",
        "FATAL:  unsupported startup parameter: options",
    ],
    ids=["RDS Proxy", "Neon", "PgBouncer"],
)
def test_a_pooler_that_refuses_options_is_asked_without_them(text: str) -> None:
    without = session_limits.without_options(GIVEN, psycopg.OperationalError(f"connection failed: {text}"))
    assert conninfo.conninfo_to_dict(without) == {"host": "proxy.example", "user": "ann", "options": ""}


def test_another_error_is_raised_as_it_is() -> None:
    error = psycopg.OperationalError('FATAL:  password authentication failed for user "ann"')
    with pytest.raises(psycopg.OperationalError) as raised:
        session_limits.without_options(GIVEN, error)
    assert raised.value is error
