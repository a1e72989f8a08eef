"""The command line against the stack."""

import json

import pytest

from local_stack.stack import LocalStack
from support.command import Command


@pytest.fixture
def workorders(stack: LocalStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, in an environment that knows the stack."""
    monkeypatch.setenv("WORKORDERS_DATABASE_URL", stack.database_url)
    monkeypatch.setenv("WORKORDERS_KAFKA", json.dumps(stack.kafka_settings))
    return Command(monkeypatch, capsys)
