"""PgBouncer in front of a stack that runs already, and the limits of the role whose sessions go through it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from local_stack.certificates import Authority
from local_stack.pgbouncer import CERTIFIED_USER, LIMITS, PgBouncer, Pooling
from local_stack.ports import LOOPBACK
from local_stack.postgres import SUPERUSER
from local_stack.stack import DATABASE, LocalStack
from support.debian import require_debian


def start_pooler(stack: LocalStack, pooling: Pooling, **options: Any) -> PgBouncer:
    """Start a pooler that ends with the stack; the test is skipped where PgBouncer cannot be had."""
    require_debian("pgbouncer")
    pooler = PgBouncer(DATABASE, pooling, **options)
    stack.start_pooler(pooler)
    return pooler


@contextmanager
def certified_pooler(stack: LocalStack, authority: Authority) -> Iterator[str]:
    """Run a pooler with TLS, because the stack's Postgres has none.

    Yields the connection string of its one user, with the texts of the certificates and of the key.
    """
    pooler = start_pooler(stack, "session", authority=authority)
    client = authority.client(CERTIFIED_USER)
    set_limits(stack, are_set=True)
    try:
        yield make_conninfo(
            host=LOOPBACK,
            port=pooler.port,
            user=CERTIFIED_USER,
            dbname=DATABASE,
            sslmode="verify-full",
            sslrootcert=authority.pem,
            sslcert=client.chain,
            sslkey=client.key(),
        )
    finally:
        set_limits(stack, are_set=False)
        pooler.stop()


def set_limits(stack: LocalStack, *, are_set: bool) -> None:
    """Give the owner of the work orders the limits of sessions, or take them away."""
    with psycopg.connect(stack.postgres.url(SUPERUSER), autocommit=True) as connection:
        for name, value in LIMITS.items():
            role, setting = sql.Identifier(DATABASE), sql.Identifier(name)
            change = (
                sql.SQL("SET {} = {}").format(setting, sql.Literal(value))
                if are_set
                else sql.SQL("RESET {}").format(setting)
            )
            connection.execute(sql.SQL("ALTER ROLE {} {}").format(role, change))
