"""What was measured, as a file that can be held against those of other days and machines."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.machine import machine, versions


def write(path: Path, about: Mapping[str, Any], **results: Any) -> Path:
    """Write results as JSON, with when, where and with what they were measured, and return the path.

    Args:
        path: the file; its folder is made.
        about: what was measured, and how; comes first.
        results: lists by their names; come last.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        **about,
        "finished_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        **results,
    }
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path
