"""Connections as this package opens them, in every process and from every pool."""

import asyncio
from typing import Any, Self

import psycopg

from workorders.core.postgres.certificates import with_files
from workorders.core.postgres.login_tokens import has_token, with_token
from workorders.core.postgres.session_limits import ASK_FOR_LIMITS, accepted, require_limits, without_options


class ClientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose login may have a token, whose certificates may be texts, and whose sessions have limits."""

    @classmethod
    def connect(cls, conninfo: str = "", *, autocommit: bool = False, **settings: Any) -> Self:
        """Open a connection, without the options if a pooler refuses them.

        Raises:
            psycopg.OperationalError: the server cannot be reached or refuses, or the sessions have no limits.
        """
        text = with_files(with_token(conninfo))
        try:
            connection = super().connect(accepted(text), autocommit=True, **settings)
        except psycopg.OperationalError as error:
            connection = super().connect(without_options(text, error), autocommit=True, **settings)
        try:
            require_limits(connection.execute(ASK_FOR_LIMITS).fetchone())
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection


class AsyncClientConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """The same in an event loop."""

    @classmethod
    async def connect(cls, conninfo: str = "", *, autocommit: bool = False, **settings: Any) -> Self:
        """Open a connection, without the options if a pooler refuses them.

        Raises:
            psycopg.OperationalError: the server cannot be reached or refuses, or the sessions have no limits.
        """
        # A new token may be a request, which must not hold the event loop.
        text = with_files(await asyncio.to_thread(with_token, conninfo) if has_token(conninfo) else conninfo)
        try:
            connection = await super().connect(accepted(text), autocommit=True, **settings)
        except psycopg.OperationalError as error:
            connection = await super().connect(without_options(text, error), autocommit=True, **settings)
        try:
            cursor = await connection.execute(ASK_FOR_LIMITS)
            require_limits(await cursor.fetchone())
            await connection.set_autocommit(autocommit)
        except BaseException:
            await connection.close()
            raise
        return connection
