import os
import signal
from pathlib import Path

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.spark import connect_server
from workorders.kafka.spark.connect_server import TOKEN_VARIABLE, serve


class StartedError(Exception):
    """Spark would have been started."""


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no Spark, and handle no signal."""

    def start(*_: object) -> None:
        raise StartedError

    monkeypatch.setattr(connect_server, "_session", start)
    monkeypatch.setattr(signal, "signal", lambda *_: None)


def run(host: str) -> None:
    serve(host=host, port=0, master="local[1]", jars=[], conf={}, ready=lambda _: None)


def test_a_server_that_others_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(ConfigurationError, match=r"would listen on 0\.0\.0\.0 without a token"):
        run("0.0.0.0")
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    with pytest.raises(StartedError):
        run("0.0.0.0")


def test_a_server_on_loopback_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    with pytest.raises(StartedError):
        run("127.0.0.1")


def test_the_token_may_be_in_a_mounted_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    (tmp_path / "token").write_text("a token\n")
    monkeypatch.setenv(f"{TOKEN_VARIABLE}_FILE", str(tmp_path / "token"))
    with pytest.raises(StartedError):
        run("0.0.0.0")
    assert os.environ[TOKEN_VARIABLE] == "a token"
