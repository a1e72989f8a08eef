"""Registers health events: of a resource as a hospital's systems publish it, the few facts that a ward works with.

An alarming value is answered: its entry is published to the topic ALARMS, in the transaction that records the run.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from clinic import vital_signs
from workorders.core.worker.context import Context

ALARMS: Final = "health.alarms"
"""Topic of the entries that a person should check."""

_LOG: Final = logging.getLogger(__name__)


class UnknownResourceError(ValueError):
    """The event is about something that the register has no entry for."""


def register(event: Mapping[str, Any], context: Context | None = None) -> dict[str, Any]:
    """Return the entry of an event: its patient, kind, time, and facts.

    Raises:
        UnknownResourceError: the register has no entry for such a resource.
        KeyError: the resource lacks a field that its entry needs.
    """
    kind = event.get("resourceType")
    facts = _FACTS.get(str(kind))
    if facts is None:
        raise UnknownResourceError(f"The register has no entry for a resource of type {kind!r}.")
    entry = {"patient": _patient(event), "kind": kind, "id": event["id"], **facts(event)}
    if entry.get("assessment") == "alarming":
        _LOG.warning("%s of %s is alarming: %s %s", entry["what"], entry["patient"], entry["value"], entry["unit"])
        if context is not None:
            context.publish(ALARMS, entry, key=entry["patient"])
    return entry


def _patient(event: Mapping[str, Any]) -> str:
    return str(event["subject"]["reference"]).removeprefix("Patient/") if "subject" in event else str(event["id"])


def _observation(event: Mapping[str, Any]) -> dict[str, Any]:
    return {"when": event["effectiveDateTime"], "final": event["status"] != "preliminary", **vital_signs.assess(event)}


def _encounter(event: Mapping[str, Any]) -> dict[str, Any]:
    ward = event["location"][0]["location"]["display"]
    return {"when": event["period"]["start"], "ward": ward, "status": event["status"], "notes": len(event["note"])}


def _patient_record(event: Mapping[str, Any]) -> dict[str, Any]:
    name = event["name"][0]
    return {
        "when": event["meta"]["lastUpdated"],
        "name": " ".join([*name["given"], name["family"]]),
        "born": event["birthDate"],
        "version": int(event["meta"]["versionId"]),
    }


def _medication_request(event: Mapping[str, Any]) -> dict[str, Any]:
    dosage = event["dosageInstruction"][0]
    doses = dosage["timing"]["repeat"]["frequency"] * dosage["doseAndRate"][0]["doseQuantity"]["value"]
    return {
        "when": event["authoredOn"],
        "medication": event["medicationCodeableConcept"]["text"],
        "tablets_a_day": doses,
    }


_FACTS: Final[Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]]] = {
    "Observation": _observation,
    "Encounter": _encounter,
    "Patient": _patient_record,
    "MedicationRequest": _medication_request,
}
