"""Every test here runs against every trigger type."""

from pathlib import Path
from typing import Any

import pytest

from local_stack.stack import LocalStack
from support.trigger_types import SOURCES, MakeSource, Source
from workorders.core.definitions.trigger import trigger_types


@pytest.fixture(params=sorted(trigger_types()))
def make_source(
    request: pytest.FixtureRequest, stack: LocalStack, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeSource:
    """Makes a trigger of each type that is installed; a type without a source here fails."""

    def make(**fields: Any) -> Source:
        return SOURCES[request.param](stack, name, tmp_path, monkeypatch, fields)

    return make


@pytest.fixture
def source(make_source: MakeSource) -> Source:
    """A trigger with nothing but what it needs."""
    return make_source()
