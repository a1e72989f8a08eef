"""Assesses vital signs by the usual ranges of adults; an example, and no medical advice."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Range:
    """Values that give no cause for concern, and the wider ones that give no cause for alarm."""

    low: float
    high: float
    alarmingly_low: float
    alarmingly_high: float

    def assess(self, value: float) -> str:
        """Return `alarming`, `low`, `high` or `usual`."""
        if not self.alarmingly_low <= value <= self.alarmingly_high:
            return "alarming"
        if value < self.low:
            return "low"
        return "high" if value > self.high else "usual"


#: By LOINC code.
RANGES: Final[Mapping[str, Range]] = {
    "8867-4": Range(50, 100, 40, 130),
    "8310-5": Range(36.0, 38.0, 35.0, 40.0),
    "9279-1": Range(12, 20, 8, 25),
    "59408-5": Range(95, 100, 90, 100.5),
    "2339-0": Range(70, 140, 54, 250),
}


class UnknownVitalSignError(ValueError):
    """No range is known for the code of an observation."""


def assess(observation: Mapping[str, Any], _context: object = None) -> dict[str, Any]:
    """Return the measured value and its assessment.

    Raises:
        UnknownVitalSignError: no range is known for its code.
        KeyError: the observation lacks a field.
    """
    coding = observation["code"]["coding"][0]
    range_ = RANGES.get(coding["code"])
    if range_ is None:
        raise UnknownVitalSignError(f"No range is known for the code {coding['code']!r} of {observation['id']}.")
    quantity = observation["valueQuantity"]
    return {
        "what": coding.get("display", coding["code"]),
        "value": quantity["value"],
        "unit": quantity["unit"],
        "assessment": range_.assess(quantity["value"]),
    }
