"""What faults ask of Postgres itself: sessions that wait for a lock, the backend of a client, a lock."""

from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import psycopg

from faults.breakpoints import PostgresLink
from faults.site import Site
from local_stack.waiting import wait_until

_SECONDS = 120.0


def until_waiting_for_a_lock(site: Site, application: str) -> None:
    """Wait until a session of this name waits for a lock.

    Raises:
        AssertionError: none did.
    """

    def waits() -> bool:
        return bool(
            site.admin(
                "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, %(name)s) "
                "AND wait_event_type = 'Lock'",
                {"name": application},
            )
        )

    assert wait_until(waits, seconds=_SECONDS), f"no session of {application} waited for a lock"


def until_no_session_is_connected(site: Site, application: str) -> None:
    """Wait until no session has this name: Postgres has noticed that its client is gone.

    Raises:
        AssertionError: one stayed.
    """

    def gone() -> bool:
        query = "SELECT pid FROM pg_stat_activity WHERE application_name = %(name)s"
        return not site.admin(query, {"name": application})

    assert wait_until(gone, seconds=_SECONDS), f"a session of {application} stayed"


def until_answering(site: Site) -> None:
    """Wait until Postgres, which has ended all sessions by itself, takes new ones.

    Raises:
        AssertionError: it does not.
    """

    def answers() -> bool:
        try:
            return bool(site.admin("SELECT 1"))
        except psycopg.OperationalError:
            return False

    assert wait_until(answers, seconds=_SECONDS), "Postgres did not recover"


def backend_of(site: Site, link: PostgresLink) -> psutil.Process:
    """Return the process of Postgres that serves a connection."""
    port = link.server.getsockname()[1]
    ((pid,),) = site.admin("SELECT pid FROM pg_stat_activity WHERE client_port = %(port)s", {"port": port})
    return psutil.Process(pid)


@contextmanager
def locked_ledger(site: Site, trigger: str) -> Iterator[None]:
    """Hold the locks of a trigger's ledger rows."""
    with psycopg.connect(site.admin_url) as connection:
        connection.execute(
            "SELECT FROM workorders.kafka_ledger AS ledger "
            "JOIN workorders.triggers ON triggers.id = ledger.trigger_id "
            "WHERE triggers.name = %s FOR UPDATE OF ledger",
            (trigger,),
        )
        yield
        connection.rollback()
