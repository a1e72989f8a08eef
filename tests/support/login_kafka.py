"""A broker with every login, next to that of a stack that runs already."""

from collections.abc import Iterator
from contextlib import contextmanager

from local_stack import jars
from local_stack.java import find_java
from local_stack.login_kafka import LoginKafka
from local_stack.stack import LocalStack


@contextmanager
def login_kafka(stack: LocalStack) -> Iterator[LoginKafka]:
    """Run such a broker, with an issuer of tokens."""
    assert stack._processes is not None
    kafka = LoginKafka(stack._processes, stack.home, java=find_java(), jars=jars.fetch("kafka"), name="kafka-logins")
    try:
        kafka.create()
        yield kafka
        kafka.stop()
    finally:
        kafka.close()
