"""The stream of events that the demo produces: health records, and now and then a value that is none.

One seed always gives the same stream. Kafka is not needed here: an event is a key, a value and headers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Final

from demo.resources import encounter, medication_request, observation, patient_record

Headers = list[tuple[str, bytes | None]]

FLAW_EVERY: Final = 80
"""One event in this many has a flaw."""

#: Faults of real topics, by a descriptive name.
FLAWS: Final[dict[str, bytes | None]] = {
    "tombstone": None,
    "cut short": b'{"resourceType":"Observation","id":"observation-7","valueQuantity":{"val',
    "empty value": b"",
    "array": b'[{"resourceType":"Observation"},{"resourceType":"Patient"}]',
    "number": b"37.2",
    "NaN": b'{"resourceType":"Observation","valueQuantity":{"value":NaN,"unit":"Cel"}}',
    "Latin-1": '{"resourceType":"Patient","name":[{"family":"Müller"}]}'.encode("latin-1"),
    "NUL escape": b'{"resourceType":"Patient","name":[{"family":"Okafor\\u0000"}]}',
    "lone surrogate": b'{"resourceType":"Encounter","note":[{"text":"feels well \\ud83d"}]}',
    "huge number": b'{"resourceType":"Observation","valueQuantity":{"value":1e999}}',
    "nested too deep": b'{"resourceType":"Encounter","part":' + b"[" * 1100 + b"]" * 1100 + b"}",
}
# More of what is seen most.
_FLAW_ORDER: Final = ("tombstone", "cut short", *FLAWS)

_RESOURCES: Final = (observation, encounter, patient_record, medication_request)
_SHARES: Final = (70, 15, 5, 10)
_SOURCES: Final = ("monitor-gateway", "ward-app", "pharmacy", "admission-desk")
_PATIENTS: Final = 700


@dataclass(frozen=True, slots=True)
class Event:
    """One message before it is sent."""

    key: bytes
    """The patient's id, so that the events of a patient stay in order."""
    value: bytes | None
    headers: Headers
    flaw: str | None
    """Name of the flaw in the value, one of `FLAWS`; None for a health record."""


def health_events(seed: int) -> Iterator[Event]:
    """Yield the endless stream of a seed."""
    random = Random(seed)  # noqa: S311 - a stream that can be repeated, and no secret
    number = 0
    while True:
        number += 1
        patient = f"patient-{random.randrange(_PATIENTS):04d}"
        flaw = _flaw(number)
        value = FLAWS[flaw] if flaw else _record(random, number, patient)
        yield Event(patient.encode(), value, _headers(random, number), flaw)


def _flaw(number: int) -> str | None:
    """Return the flaw of an event: they take turns, so that a short stream has all of them as well."""
    place, remainder = divmod(number, FLAW_EVERY)
    return None if remainder else _FLAW_ORDER[place % len(_FLAW_ORDER)]


def _record(random: Random, number: int, patient: str) -> bytes:
    make = random.choices(_RESOURCES, _SHARES)[0]
    return json.dumps(make(random, number, patient), ensure_ascii=False, separators=(",", ":")).encode()


def _headers(random: Random, number: int) -> Headers:
    trace = f"00-{random.getrandbits(128):032x}-{random.getrandbits(64):016x}-01"
    headers: Headers = [
        ("content-type", b"application/fhir+json"),
        ("source", random.choice(_SOURCES).encode()),
        ("traceparent", trace.encode()),
    ]
    if number % 50 == 0:
        headers.append(("checksum", random.randbytes(32)))
    if number % 70 == 0:
        headers += [("forwarded-by", b"gateway-1"), ("forwarded-by", b"gateway-2"), ("forwarded-by", None)]
    return headers
