"""A separate database with the tables of work orders, for tests of what looks at all rows of one."""

from functools import cache
from uuid import uuid4

from local_stack.stack import LocalStack
from workorders.core import schema


def own_database(stack: LocalStack, purpose: str) -> str:
    """Make a database with empty tables, and return its URL."""
    name = f"{purpose}_{uuid4().hex[:12]}"
    stack.postgres.create_database(name, template=_template(stack))
    return stack.postgres.url(name)


@cache
def _template(stack: LocalStack) -> str:
    """Make a database to copy: each upgrade of an empty one would take half a second."""
    name = "empty_tables"
    stack.postgres.create_database(name)
    schema.upgrade(stack.postgres.url(name))
    return name
