"""Connections as this package opens them, in every process and from every pool."""

import time
from collections.abc import Callable
from typing import Any, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from workorders.core.postgres.certificates import with_files
from workorders.core.postgres.login_tokens import with_token
from workorders.core.postgres.session_limits import ASK_FOR_LIMITS, require_limits, without_options

RV = TypeVar("RV")
MayWait = Callable[[float], bool]
"""Asked several times per second of a wait for the server, with the seconds that it has lasted; False ends it."""


class ClientConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose login may have a token, whose certificates may be texts, and whose sessions have limits."""

    may_wait: MayWait | None = None
    """None waits for every answer. A proxy that hangs acknowledges what it never forwards, so TCP does not end that."""

    @classmethod
    def connect(cls, conninfo: str = "", *, autocommit: bool = False, **settings: Any) -> Self:
        """Open a connection, with its `may_wait` if there is one, and without the options if a pooler refuses them.

        Raises:
            psycopg.OperationalError: the server cannot be reached or refuses, or the sessions have no limits.
        """
        text = with_files(with_token(conninfo))
        may_wait = settings.pop("may_wait", None)
        try:
            connection = super().connect(text, autocommit=True, **settings)
        except psycopg.OperationalError as error:
            connection = super().connect(without_options(text, error), autocommit=True, **settings)
        connection.may_wait = may_wait
        try:
            require_limits(connection.execute(ASK_FOR_LIMITS).fetchone())
            connection.autocommit = autocommit
        except BaseException:
            connection.close()
            raise
        return connection

    def wait(self, gen: PQGen[RV], *settings: Any, **named: Any) -> RV:
        """Wait for the server as long as `may_wait` allows."""
        return super().wait(gen if self.may_wait is None else self._bounded(gen, self.may_wait), *settings, **named)

    def _bounded(self, gen: PQGen[RV], may_wait: MayWait) -> PQGen[RV]:
        begun = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                waited = time.monotonic() - begun
                if ready == Ready.NONE and not may_wait(waited):
                    self.close()
                    raise psycopg.OperationalError(
                        f"the database did not answer for {waited:.0f} s; the connection was closed"
                    )
                wanted = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result
