"""Holds the messages that a plain reader sees against the work orders: pure."""

import json
from base64 import b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.database import WorkOrder
from demo.topic import Place, Received


@dataclass(frozen=True, slots=True)
class Comparison:
    """Where messages and work orders differ, by partition and offset; nothing differs if all lists are empty."""

    missing: list[Place]
    """Messages without a work order."""
    duplicates: list[Place]
    """Messages with more than one."""
    strangers: list[Place]
    """Work orders without a message, such as one of an aborted transaction."""
    altered: list[Place]
    """Work orders whose key, headers, timestamp, body or raw bytes are not those of the message."""
    seconds: list[float]
    """From the message's timestamp to the work order's creation, for each message that has one; sorted."""


def compare(topic: str, messages: Mapping[Place, Received], orders: Sequence[WorkOrder]) -> Comparison:
    """Compare the messages of a topic, by place, with all work orders there are."""
    places = [place_of(order) for order in orders]
    counted = Counter(places)
    pairs = [(place, messages[place], order) for place, order in zip(places, orders, strict=True) if place in messages]
    return Comparison(
        missing=sorted(messages.keys() - counted.keys()),
        duplicates=sorted(place for place, times in counted.items() if times > 1),
        strangers=sorted(counted.keys() - messages.keys()),
        altered=sorted(place for place, message, order in pairs if not _holds(topic, place, message, order)),
        seconds=sorted(order.created_at - message.timestamp_ms / 1000 for _, message, order in pairs),
    )


def place_of(order: WorkOrder) -> Place:
    """Return the partition and offset that a work order names in its request."""
    return order.request["partition"], order.request["offset"]


def _holds(topic: str, place: Place, message: Received, order: WorkOrder) -> bool:
    request = order.request
    return (
        request["topic"] == topic
        and order.position == place[1]
        and _bytes(request["key"]) == message.key
        and request["timestamp"] == message.timestamp_ms
        and [(name, _bytes(value)) for name, value in request["headers"]] == message.headers
        and _holds_value(message.value, order)
    )


def _holds_value(value: bytes | None, order: WorkOrder) -> bool:
    if order.state == "rejected":
        return order.raw == value and order.body is None and order.reason is not None
    return value is not None and order.body == json.loads(value) and order.reason is None


def _bytes(text: str | Mapping[str, Any] | None) -> bytes | None:
    """Return the bytes that a request holds as text, or as base64 where they are none."""
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else b64decode(text["base64"])
