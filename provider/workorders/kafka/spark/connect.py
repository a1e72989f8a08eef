"""A session on a running Spark Connect server: one per attempt, opened when it is needed and released at its end.

The server may run a query twice after a lost connection, with the same epoch. Both find the ledger locked, and only one
can move it; so whatever happens here, the caller asks the ledger what was committed.
"""

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self, cast
from urllib.parse import quote

import grpc
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql.connect import proto
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub
from pyspark.sql.connect.session import SparkSession as ConnectSparkSession

from workorders.core.environment import THIS_MACHINE
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.kafka.exceptions import SparkServerError
from workorders.kafka.spark.installed_package import package_archive
from workorders.kafka.spark.session import DAEMON_SETTING, OWN_DAEMON, SESSION_SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_PORT: Final = 15002
"""Spark's own default."""
# Waits of 0.05, 0.2, 0.8 and 3.2 s. PySpark's own policy waits for ten minutes, in which the task shows nothing.
_MAX_RETRIES: Final = 4
_PROBE_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 60.0
"""How long the server may be silent before its connection is closed, in seconds."""
_RELEASE_SECONDS: Final = 5.0
_POOL: Final = "spark.scheduler.pool"
FEW_OFFSETS: Final = 10_000
"""Maximum number of offsets of a batch that is not to wait for large ones: it takes a second."""


@dataclass(frozen=True, slots=True, repr=False)
class ConnectServer:
    """Where a Spark Connect server is, and how to log in. Without a repr, because of the token."""

    name: str
    """What people call it: the id of the Airflow connection."""
    host: str
    port: int = DEFAULT_PORT
    user: str = "workorders"
    token: str | None = None
    use_ssl: bool = False
    ca: str | None = None
    """PEM text of the authority that signed the server's certificate; None for the system's own ones."""

    def __post_init__(self) -> None:
        """Refuse a channel that others can read."""
        if not self.is_loopback and not (self.use_ssl and self.token):
            raise ConfigurationError(
                f"The Spark Connect connection {self.name} leads to {self.host}, and passwords would "
                f"cross the network in plain text; no work order was created. Put a TLS proxy before the server, and "
                f"set use_ssl in the connection's extra and the server's token as its password."
            )

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        return self.host in THIS_MACHINE

    def __str__(self) -> str:
        return f"Spark Connect server {self.host}:{self.port} of connection {self.name}"


class _Channel(DefaultChannelBuilder):
    """PySpark's channel, with the certificate authority of a connection."""

    def __init__(self, server: ConnectServer, session_id: str) -> None:
        # PySpark accepts a token without TLS only for a host of exactly this name.
        host = "localhost" if server.is_loopback else server.host
        fields = {"user_id": server.user, "session_id": session_id, "use_ssl": str(server.use_ssl).lower()}
        if server.token:
            fields["token"] = server.token
        super().__init__(
            f"sc://{host}:{server.port}/;" + ";".join(f"{k}={quote(v, safe='')}" for k, v in fields.items())
        )
        self._ca = server.ca

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        """Return a new channel."""
        if self._ca is None or not self.use_ssl:
            return super().toChannel()
        credentials = grpc.ssl_channel_credentials(self._ca.encode())
        if self.token is not None:
            credentials = grpc.composite_channel_credentials(
                credentials, grpc.access_token_call_credentials(self.token)
            )
        return self._secure_channel(self.endpoint, credentials)


class ConnectSession:
    """The session of one attempt at a batch; a context manager that releases it."""

    def __init__(self, server: ConnectServer, *, conf: Mapping[str, Any]) -> None:
        self._server = server
        self._id = str(uuid.uuid4())
        self._conf = dict(conf)
        self._session: ConnectSparkSession | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the session, which ends its queries, and close the connection; no error is raised."""
        session, self._session = self._session, None
        self._ended.set()
        if session is not None:
            self._end(session)

    def open(self, offsets: int) -> "SparkSession":
        """Return the session for a query that reads so many offsets; open it at the first call.

        A session that cannot be prepared is closed.

        Raises:
            SparkServerError: the server did not answer, or refused the token.
            ConfigurationError: its Spark is another version, a setting of the trigger is none of a session's, or the
                package's files change meanwhile.
        """
        # A free core goes to the scheduler pool with the fewest running tasks, and in a pool to the oldest query. Small
        # batches so wait for no backlog, and none waits indefinitely. With a pool for each trigger, Spark prefers the
        # first by name among those that run nothing: under load the last ones starve.
        session = self._session or self._begin()
        if _POOL not in self._conf:
            with self._explained():
                session.conf.set(_POOL, "few_messages" if offsets <= FEW_OFFSETS else "many_messages")
        return cast("SparkSession", session)  # the same interface, without a common base

    def _begin(self) -> ConnectSparkSession:
        channel = _Channel(self._server, self._id)
        session = ConnectSparkSession(channel)
        session.client.set_retry_policies([DefaultPolicy(max_retries=_MAX_RETRIES)])
        try:
            with self._explained():
                self._prepare(session)
            self._session = session
        finally:
            if self._session is None:
                self._end(session)
        watch = partial(self._close_if_silent, channel, session)
        threading.Thread(target=watch, name="spark-connect-watchdog", daemon=True).start()
        return session

    def _close_if_silent(self, channel: _Channel, session: ConnectSparkSession) -> None:
        """Ask the server again and again, on a separate connection, and close that of the session if it is silent.

        No Spark up to 4.2 sends keepalives, so a client would wait indefinitely for a machine that is gone. The
        server's progress messages are no sign of life: they come only when something has changed.
        """
        request = proto.ConfigRequest(
            session_id=self._id,
            user_context=proto.UserContext(user_id=self._server.user),
            operation=proto.ConfigRequest.Operation(get=proto.ConfigRequest.Get(keys=["spark.sql.session.timeZone"])),
        )
        answered = monotonic()
        with channel.toChannel() as probes:
            stub = SparkConnectServiceStub(probes)
            while not self._ended.wait(_PROBE_SECONDS):
                try:
                    stub.Config(request, timeout=_PROBE_SECONDS)
                    answered = monotonic()
                except grpc.RpcError:
                    if monotonic() - answered > SILENCE_SECONDS:
                        session.client.close()
                        return

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            raise SparkServerError(
                f"The {self._server} could not be used: {one_line(error)}; nothing was committed. Start it "
                f"with `workorders spark serve`, or let the trigger use a connection of the type spark."
            ) from error

    def _prepare(self, session: ConnectSparkSession) -> None:
        # The first answer also tells the client the server's own id of the session. Without it, a query that is sent
        # again to a restarted server would run there.
        version = session.version
        if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
            raise ConfigurationError(
                f"The {self._server} runs Spark {version} and this task has PySpark {pyspark.__version__}; "
                f"nothing was committed. Use the same minor version on both sides."
            )
        for name, value in self._conf.items():
            if not session.conf.isModifiable(name):
                raise ConfigurationError(
                    f"{name} cannot be set for a session on the {self._server}; nothing was committed. Set it when the "
                    f"server starts (`workorders spark serve --conf {name}={value}`), and leave it out of the trigger."
                )
        for name, value in {**SESSION_SETTINGS, **self._conf}.items():
            session.conf.set(name, str(value) if not isinstance(value, bool) else str(value).lower())
        if session.conf.get(DAEMON_SETTING, "") != OWN_DAEMON:
            session.addArtifacts(str(package_archive()), pyfile=True)

    def _end(self, session: ConnectSparkSession) -> None:
        session.release_session_on_close = False  # PySpark's own call has no deadline
        session.stop()
        # Afterwards, because the client releases its queries in a thread, and the server logs a stack for each that it
        # does not find.
        self.release()

    def release(self) -> None:
        """End the session's queries and forget the session; also from a signal handler while a query runs."""
        builder = _Channel(self._server, self._id)
        request = proto.ReleaseSessionRequest(
            session_id=self._id, user_context=proto.UserContext(user_id=self._server.user)
        )
        with builder.toChannel() as channel, suppress(grpc.RpcError):
            SparkConnectServiceStub(channel).ReleaseSession(request, timeout=_RELEASE_SECONDS)
