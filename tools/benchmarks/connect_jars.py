"""The pinned jars of Kafka Connect and Debezium's JDBC sink; `python -m benchmarks.connect_jars` resolves them again.

They have their own lock file, so that nothing but the benchmark downloads them.
"""

from pathlib import Path
from typing import Final

from local_stack import jars

LOCK_FILE: Final = Path(__file__).with_name("jars.lock")

_GROUP: Final = "connect"
_KAFKA: Final = "4.3.1"
# Debezium would bring older parts of Kafka Connect, and names Hibernate's pool by an old coordinate without a jar.
ROOTS: Final = (
    *(f"org.apache.kafka:connect-{part}:{_KAFKA}" for part in ("runtime", "api", "json", "transforms")),
    f"org.apache.kafka:kafka-clients:{_KAFKA}",
    "io.debezium:debezium-connector-jdbc:3.6.0.Final",
    "org.hibernate.orm:hibernate-core:7.2.19.Final",
    "org.hibernate.orm:hibernate-agroal:7.2.19.Final",
    "org.postgresql:postgresql:42.7.14",
    "org.slf4j:slf4j-simple:1.7.36",
)
_WITHOUT: Final = ("org.hibernate:", "com.microsoft.sqlserver:", "com.mysql:", "com.oracle.", "org.mariadb.")


def fetch() -> list[Path]:
    """Return the jars; download those that the cache does not hold.

    Raises:
        StackError: one could not be downloaded, or its content differs from the lock.
    """
    return jars.fetch(_GROUP, lock=LOCK_FILE)


def lock() -> None:
    """Resolve the jars again and write the lock file."""
    LOCK_FILE.write_text(jars.format_lock(jars.resolve_lock({_GROUP: ROOTS}, {}, without=_WITHOUT)), encoding="utf-8")


if __name__ == "__main__":
    lock()
