"""Which messages are read again, and when a work order differs from its message."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest

from workorders.audit.messages import BLOCK, StoredMessage, choose_blocks, difference, is_missing, was_changed_since
from workorders.audit.partitions import FinishedRange
from workorders.core.items import Item, Rejection

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ACCEPTED = Item("orders/0@id", 5, b"{}", b"{}")
REFUSED = Item("orders/0@id", 5, b"{}", None, Rejection("not-json", "rubbish"), b"rubbish")
STORED = StoredMessage(
    UUID(int=1), NOW, is_rejected=False, has_input=True, code=None, is_wiped=False, same_content=True, same_request=True
)
REJECTED = replace(STORED, is_rejected=True, has_input=False, code="not-json")


@pytest.mark.parametrize(("sample", "blocks"), [(0, 0), (1, 1), (BLOCK, 1), (BLOCK + 1, 2), (10_000, 20)])
def test_blocks_are_of_the_log_and_about_as_many_messages_as_the_sample(sample: int, blocks: int) -> None:
    chosen = choose_blocks(100, 100 + 20 * BLOCK - 3, sample, Random(7))
    assert len(chosen) == blocks
    offsets = [offset for block in chosen for offset in range(block.start, block.end)]
    assert len(set(offsets)) == len(offsets)
    assert all(100 <= offset < 97 + 20 * BLOCK for offset in offsets)


def test_an_empty_log_has_no_blocks() -> None:
    assert choose_blocks(5, 5, 100, Random(7)) == []


@pytest.mark.parametrize(
    ("item", "stored", "is_decoded", "part"),
    [
        (ACCEPTED, STORED, False, None),
        (REFUSED, REJECTED, False, None),
        (ACCEPTED, replace(STORED, same_content=False), False, "another content"),
        (ACCEPTED, replace(STORED, same_request=False), False, "another key"),
        (ACCEPTED, replace(STORED, is_wiped=True, same_content=False), False, None),
        (ACCEPTED, replace(STORED, has_input=False), False, "neither"),
        (ACCEPTED, replace(STORED, code="not-json"), False, "neither"),
        (REFUSED, STORED, False, "has an input, and its message is not-json"),
        # The schema may have been deleted or registered since.
        (REFUSED, STORED, True, None),
        (ACCEPTED, replace(REJECTED, same_request=False), True, None),
        (ACCEPTED, replace(REJECTED, same_request=False), False, "another key"),
        (ACCEPTED, replace(REJECTED, same_content=False), True, "another content"),
        (ACCEPTED, replace(REJECTED, code="duplicate", same_request=False), True, "another key"),
    ],
)
def test_what_differs(item: Item, stored: StoredMessage, part: str | None, *, is_decoded: bool) -> None:
    found = difference(item, stored, is_decoded=is_decoded, has_headers=True)
    assert (found is None) is (part is None)
    assert (part or "") in (found or "")


def test_headers_that_the_client_cannot_read_are_not_compared() -> None:
    assert difference(ACCEPTED, replace(STORED, same_request=False), is_decoded=False, has_headers=False) is None


def test_a_message_is_missing_unless_retention_may_have_deleted_its_work_order() -> None:
    range_ = FinishedRange(1, 0, 10, 10, 0, 0, 0, None)
    existed = replace(range_, existing=1)
    assert is_missing([existed], None)
    assert is_missing([existed, range_], NOW)
    assert not is_missing([existed], NOW)


def test_a_definition_counts_for_what_was_stored_an_hour_after_it_was_changed() -> None:
    assert not was_changed_since(NOW, None)
    assert was_changed_since(NOW, NOW - timedelta(minutes=30))
    assert not was_changed_since(NOW, NOW - timedelta(hours=2))
