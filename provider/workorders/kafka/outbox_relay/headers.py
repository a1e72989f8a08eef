"""Headers of a waiting message, in the form that a producer takes."""

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from workorders.outbox.store.rows import text_of

RecordHeader = tuple[str, bytes | str | None]


def record_headers(
    headers: Sequence[Sequence[Any]] | None, event_id_header: str | None, event_id: str | None
) -> list[RecordHeader]:
    """Return the headers in their order, and behind them the event's id if a header is named for it."""
    found: list[RecordHeader] = [
        (name, b64decode(text_of(value) or "") if isinstance(value, dict) else value) for name, value in headers or ()
    ]
    if event_id_header is not None:
        found.append((event_id_header, event_id))
    return found
