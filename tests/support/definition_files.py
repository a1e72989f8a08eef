"""Files of definitions, as a person writes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml


def write_definitions(folder: Path, *definitions: Mapping[str, Any]) -> Path:
    """Write each definition into a file of its name, and return the folder, which is made if it is missing."""
    folder.mkdir(exist_ok=True)
    for definition in definitions:
        (folder / f"{definition['name']}.yaml").write_text(yaml.safe_dump(dict(definition)), encoding="utf-8")
    return folder
