"""A broker with every login, next to that of a stack that runs already, and forms of its logins."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from local_stack import jars
from local_stack.certificates import Certificate
from local_stack.java import find_java
from local_stack.login_kafka import USER, LoginKafka, Settings
from local_stack.stack import LocalStack


@contextmanager
def login_kafka(stack: LocalStack) -> Iterator[LoginKafka]:
    """Run such a broker, with an issuer of tokens."""
    # Several modules may have one, and each has its own folder.
    name = f"kafka-logins-{uuid4().hex[:8]}"
    kafka = LoginKafka(stack.processes, stack.home, java=find_java(), jars=jars.fetch("kafka"), name=name)
    try:
        kafka.create()
        yield kafka
        kafka.stop()
    finally:
        kafka.close()


def client_of_intermediate(kafka: LoginKafka) -> Certificate:
    """Return the certificate of a client, whose issuer the broker does not know, but only the root."""
    return kafka.client_authority.intermediate("clients' intermediate CA").client(USER)


def in_files(settings: Settings, folder: Path, *, by_name: bool = False) -> Settings:
    """Return the settings with files of a folder in place of texts, each by its path or by its name alone."""
    found = {}
    for setting, value in settings.items():
        if setting.endswith(".pem"):
            (folder / setting).write_text(value, encoding="ascii")
            found[setting.removesuffix("pem") + "location"] = setting if by_name else str(folder / setting)
        else:
            found[setting] = value
    return found
