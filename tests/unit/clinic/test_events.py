"""The example's workflow, on the very events that the demo sends."""

import json
from itertools import islice

import pytest

from clinic.events import UnknownResourceError, register
from clinic.vital_signs import RANGES, UnknownVitalSignError, assess
from demo.health_events import health_events
from workorders.core.worker.context import Context


def test_every_event_of_the_demo_that_is_no_flaw_gets_an_entry_of_its_patient() -> None:
    events = [event for event in islice(health_events(7), 2000) if event.flaw is None and event.value]
    entries = [register(json.loads(event.value or b"")) for event in events]
    assert [entry["patient"] for entry in entries] == [event.key.decode() for event in events]
    assert {entry["kind"] for entry in entries} == {"Observation", "Encounter", "Patient", "MedicationRequest"}
    assert {entry.get("assessment") for entry in entries} >= {"usual", "low", "high", "alarming"}
    assert all(entry["when"] for entry in entries)


def test_an_alarming_value_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    register(observation(200.0))
    assert "Heart rate of patient-1 is alarming: 200.0 beats/minute" in caplog.text


@pytest.mark.parametrize(("value", "published"), [(200.0, 1), (72.0, 0)])
def test_an_alarming_value_is_answered_under_the_patients_key(value: float, published: int) -> None:
    context = Context("run", "work order", 1, None, request=b"{}")
    entry = register(observation(value), context)
    answers = [(message.to, message.key, json.loads(message.value or b"")) for message in context.messages]
    assert answers == [("health.alarms", b"patient-1", entry)] * published


def test_an_unknown_resource_and_an_unknown_vital_sign_fail_with_their_names() -> None:
    with pytest.raises(UnknownResourceError, match="'Invoice'"):
        register({"resourceType": "Invoice", "id": "1"})
    with pytest.raises(UnknownVitalSignError, match="'0-0'"):
        assess(observation(1.0, code="0-0"))


@pytest.mark.parametrize(
    ("value", "assessment"), [(39.9, "alarming"), (45, "low"), (72, "usual"), (100.5, "high"), (130.5, "alarming")]
)
def test_a_value_is_assessed_by_its_range(value: float, assessment: str) -> None:
    assert RANGES["8867-4"].assess(value) == assessment
    assert assess(observation(value))["assessment"] == assessment


def observation(value: float, code: str = "8867-4") -> dict[str, object]:
    return {
        "resourceType": "Observation",
        "id": "observation-1",
        "status": "final",
        "code": {"coding": [{"code": code, "display": "Heart rate"}]},
        "subject": {"reference": "Patient/patient-1"},
        "effectiveDateTime": "2026-03-01T00:00:00+00:00",
        "valueQuantity": {"value": value, "unit": "beats/minute"},
    }
