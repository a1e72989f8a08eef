"""CloudEvents: both modes of their Kafka binding become the JSON format of CloudEvents, with the bytes of the data."""

import re
from base64 import b64encode
from typing import Any, Final

import orjson

from workorders.core.creation.json_validation import kind_of
from workorders.core.items import Rejection
from workorders.kafka.formats.decoded import Budget, Decoded, Decoder, Headers

_STRUCTURED: Final = "application/cloudevents"
_JSON_EVENT: Final = "application/cloudevents+json"
_BATCH: Final = "application/cloudevents-batch"
_OWN_MESSAGES: Final = "the sender must send each event as a message"
_REQUIRED: Final = ("specversion", "id", "source", "type")
_PREFIX: Final = "ce_"
_OF_EVENT: Final = re.compile(r"content-type|ce_(?!data$)[a-z0-9]+")
_JSON_DATA: Final = re.compile(r"[^;]*[/+]json *(?:;.*)?", re.IGNORECASE)


def make_decoder(_json_schema: str | None) -> Decoder:
    """Return what reads events in structured mode (`content-type: application/cloudevents+json`) or in binary mode."""
    return Decoder(_decode, lambda _: "the format of CloudEvents")


def _decode(payload: bytes | None, headers: Headers, _budget: Budget) -> Decoded | Rejection:
    """Return an event as JSON, or why the message is none; a null value in binary mode is an event without data."""
    found: dict[str, bytes | None] = {}
    for name, value in headers:
        text = name.decode(errors="replace") if isinstance(name, bytes) else name
        found.setdefault(text.lower(), value)
    try:
        texts = {name: data.decode() for name, data in found.items() if data is not None and _OF_EVENT.fullmatch(name)}
    except UnicodeDecodeError:
        return Rejection("not-a-cloudevent", "a header of the event is not UTF-8")
    content_type = texts.pop("content-type", None)
    if (content_type or "").lower().startswith(_STRUCTURED):
        return _structured(payload, content_type or "")
    attributes = {name.removeprefix(_PREFIX): value for name, value in texts.items()}
    if not attributes:
        return Rejection(
            "not-a-cloudevent",
            f"the message has neither ce_ headers nor the header content-type: {_JSON_EVENT}; the sender must set the "
            f"one or the other",
        )
    return _lacking(attributes, "the header ce_") or _binary(payload, attributes, content_type)


def _structured(payload: bytes | None, content_type: str) -> Decoded | Rejection:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type.startswith(_BATCH):
        return Rejection("not-a-cloudevent", f"the message is a batch of events; {_OWN_MESSAGES}")
    if media_type != _JSON_EVENT:
        return Rejection("not-a-cloudevent", f"the event is in another format than {_JSON_EVENT}")
    try:
        event = orjson.loads(payload or b"")
    except orjson.JSONDecodeError:
        return Decoded(payload or b"")  # the validation of all values names the place
    if not isinstance(event, dict):
        return Rejection("not-a-cloudevent", f"the event is {kind_of(event)}, not an object; {_OWN_MESSAGES}")
    return _lacking(event, "the attribute ") or Decoded(payload or b"")


def _lacking(attributes: dict[str, Any], what: str) -> Rejection | None:
    for name in _REQUIRED:
        value = attributes.get(name)
        if isinstance(value, str) and value:
            continue
        fault = "missing" if name not in attributes else "empty" if value == "" else f"{kind_of(value)}, not a string"
        return Rejection("not-a-cloudevent", f"{what}{name} is {fault}; the sender must set it to a text")
    return None


def _binary(payload: bytes | None, attributes: dict[str, str], content_type: str | None) -> Decoded | Rejection:
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    event = orjson.dumps({name: attributes.pop(name) for name in _REQUIRED} | attributes)
    if payload is None:
        return Decoded(event)
    if content_type is None or _JSON_DATA.fullmatch(content_type):
        try:
            orjson.loads(payload)
        except orjson.JSONDecodeError:
            fault = "the JSON that its content-type announces; the sender must correct either"
            if content_type is None:
                fault = "JSON, and no header content-type tells what it is; the sender must set it, such as text/plain"
            return Rejection("not-json", f"the data of the event is not {fault}")
        return Decoded(b'%b,"data":%b}' % (event[:-1], payload))
    if content_type.lower().startswith("text/"):
        try:
            return Decoded(b'%b,"data":%b}' % (event[:-1], orjson.dumps(payload.decode())))
        except UnicodeDecodeError:
            pass
    return Decoded(b'%b,"data_base64":"%b"}' % (event[:-1], b64encode(payload)))
