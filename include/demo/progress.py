"""One line of progress: updated in place on a terminal, now and then elsewhere."""

import shutil
import sys
import time
from dataclasses import dataclass
from typing import Final

_CHANGED_SECONDS: Final = 5.0
_UNCHANGED_SECONDS: Final = 30.0
_CLEAR_LINE: Final = "\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """How far everything is at one moment."""

    produced: int
    created: int
    rejected: int
    lag: int
    """Offsets between the last stable ones and what the consumer group has committed."""
    at_work: tuple[str, ...]

    @property
    def counts(self) -> tuple[int, int, int]:
        """What must change while there is progress."""
        return self.produced, self.created, self.lag

    def __str__(self) -> str:
        """Return the line."""
        return (
            f"produced {self.produced:>6,}   work orders {self.created:>6,}   rejected {self.rejected:>4,}"
            f"   lag {self.lag:>6,}   {', '.join(self.at_work) or 'Airflow waits'}"
        )


class ProgressLine:
    """Shows snapshots on standard output."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._shown: Snapshot | None = None
        self._shown_at = 0.0
        self._terminal = sys.stdout.isatty()

    def show(self, snapshot: Snapshot, *, last: bool = False) -> None:
        """Show a snapshot; off a terminal only now and then, and the last one."""
        now = time.monotonic()
        line = f"{now - self._begin:4.0f} s   {snapshot}"
        if self._terminal:
            width = shutil.get_terminal_size().columns
            sys.stdout.write(_CLEAR_LINE + line[: width - 1] + ("\n" if last else ""))
        elif last or self._is_due(snapshot, now):
            sys.stdout.write(line + "\n")
            self._shown, self._shown_at = snapshot, now
        sys.stdout.flush()

    def _is_due(self, snapshot: Snapshot, now: float) -> bool:
        return self._shown is None or now - self._shown_at >= (
            _UNCHANGED_SECONDS if snapshot == self._shown else _CHANGED_SECONDS
        )
