"""Who asks for something or decides it, and why: recorded with what was done."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who acts, and for which reason."""

    actor: str
    reason: str
    account: str | None = None
    """The account of the operating system or of Airflow, independent of `actor`; None if it is unknown."""
