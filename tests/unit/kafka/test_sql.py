"""Conditions that queries must state in one way, and that SQL gives no name."""

import re
from pathlib import Path

import workorders.kafka

FILES = sorted((Path(workorders.kafka.__file__).parent).rglob("sql/*.sql"))


def test_a_range_is_unfinished_only_if_it_was_not_superseded_either() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    whole = re.findall(r"\bfinished_at IS NULL\s+AND (?:\w+\.)?superseded_by IS NULL\b", text)
    # A virtual partition (`virtual`) is superseded with its range only.
    assert len(whole) == len(re.findall(r"(?<!\bvirtual\.)\bfinished_at IS NULL\b", text)) > 0
