"""FHIR-like resources as a hospital's systems would publish them: seeded, and plausible rather than valid FHIR."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

Resource = dict[str, Any]

_FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)
_MINUTES = 90 * 24 * 60
_FAMILY_NAMES = (
    "Okafor",
    "Müller",
    "García",
    "Nguyễn",
    "Ivanova",
    "Haddad",
    "Tanaka",
    "O'Brien",
    "Sørensen",
    "Kowalski",
)
_GIVEN_NAMES = ("Ada", "Noah", "Zoë", "Liam", "Amara", "José", "Yuki", "Elif", "Mateo", "Freya")
_WARDS = ("icu", "emergency", "cardiology", "maternity", "paediatrics", "outpatient")
_VITAL_SIGNS = (
    ("8867-4", "Heart rate", "beats/minute", 72.0, 14.0),
    ("8310-5", "Body temperature", "Cel", 36.9, 0.5),
    ("9279-1", "Respiratory rate", "breaths/minute", 16.0, 3.0),
    ("59408-5", "Oxygen saturation", "%", 97.0, 1.5),
    ("2339-0", "Glucose", "mg/dL", 105.0, 22.0),
)
_MEDICATIONS = (
    ("197361", "Amlodipine 5 mg tablet"),
    ("860975", "Metformin 500 mg tablet"),
    ("308182", "Amoxicillin 250 mg capsule"),
    ("198440", "Paracetamol 500 mg tablet"),
)
_NOTE = (
    "Patient seen on the ward, comfortable and oriented.",
    "No chest pain, no shortness of breath at rest.",
    "Medication taken as planned; no side effects reported.",
    "Family informed, next visit agreed.",
    "Temperatur über Nacht gefallen, Patient schläft gut.",
    "経過良好。",
)


def observation(random: Random, number: int, patient: str) -> Resource:
    """Return one measured vital sign: a few hundred bytes."""
    code, display, unit, mean, deviation = random.choice(_VITAL_SIGNS)
    return {
        "resourceType": "Observation",
        "id": f"observation-{number}",
        "status": random.choice(("final", "final", "final", "preliminary", "amended")),
        "category": [{"coding": [{"code": "vital-signs"}]}],
        "code": {"coding": [{"system": "http://loinc.org", "code": code, "display": display}]},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": _time(random),
        "valueQuantity": {"value": round(random.gauss(mean, deviation), 1), "unit": unit},
        "device": {"display": f"monitor {random.randrange(400)}"},
    }


def encounter(random: Random, number: int, patient: str) -> Resource:
    """Return one visit with its notes: up to a few kilobytes."""
    ward = random.choice(_WARDS)
    return {
        "resourceType": "Encounter",
        "id": f"encounter-{number}",
        "status": random.choice(("planned", "in-progress", "finished")),
        "class": {"code": "IMP" if ward == "icu" else "AMB"},
        "subject": {"reference": f"Patient/{patient}"},
        "period": {"start": _time(random)},
        "location": [{"location": {"display": ward}, "status": "active"}],
        "note": [
            {"time": _time(random), "text": " ".join(random.choices(_NOTE, k=random.randint(1, 8)))}
            for _ in range(random.randint(1, 6))
        ],
    }


def patient_record(random: Random, number: int, patient: str) -> Resource:
    """Return a changed patient record."""
    given, family = random.choice(_GIVEN_NAMES), random.choice(_FAMILY_NAMES)
    return {
        "resourceType": "Patient",
        "id": patient,
        "meta": {"versionId": str(number), "lastUpdated": _time(random)},
        "active": True,
        "name": [{"use": "official", "family": family, "given": [given]}],
        "gender": random.choice(("female", "male", "other", "unknown")),
        "birthDate": f"{random.randint(1935, 2025)}-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}",
        "telecom": [{"system": "phone", "value": f"+1-555-01{random.randrange(100):02d}"}],
    }


def medication_request(random: Random, number: int, patient: str) -> Resource:
    """Return one prescription."""
    code, display = random.choice(_MEDICATIONS)
    return {
        "resourceType": "MedicationRequest",
        "id": f"medication-request-{number}",
        "status": "active",
        "intent": "order",
        "medicationCodeableConcept": {"coding": [{"code": code, "display": display}], "text": display},
        "subject": {"reference": f"Patient/{patient}"},
        "authoredOn": _time(random),
        "requester": {"reference": f"Practitioner/{random.randrange(60)}"},
        "dosageInstruction": [
            {
                "text": "1 tablet, with food",
                "timing": {"repeat": {"frequency": random.randint(1, 3), "period": 1, "periodUnit": "d"}},
                "doseAndRate": [{"doseQuantity": {"value": 0.5 * random.randint(1, 4), "unit": "tablet"}}],
            }
        ],
        "dispenseRequest": {"numberOfRepeatsAllowed": random.randrange(4), "expectedSupplyDuration": {"value": 30}},
    }


def _time(random: Random) -> str:
    return (_FIRST_DAY + timedelta(minutes=random.randrange(_MINUTES))).isoformat()
