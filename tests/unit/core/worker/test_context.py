"""What a run publishes, in its process."""

from uuid import uuid4

import pytest

from workorders.core.worker.context import Context
from workorders.core.worker.exceptions import PublishLimitError


def test_a_function_that_goes_on_after_its_limit_keeps_nothing_more_and_fails() -> None:
    context = Context(str(uuid4()), str(uuid4()), 1, "orders", None, request=b"{}", max_published_bytes=1_000)
    context.publish("shipments", "fits")
    kept = len(context.encoded_messages())
    for _ in range(3):
        with pytest.raises(PublishLimitError):
            context.publish("shipments", "x" * 2_000)
    assert sum(map(len, context._published)) == kept
    with pytest.raises(PublishLimitError, match="4 messages"):
        context.encoded_messages()
