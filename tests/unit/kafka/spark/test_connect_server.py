import os
import signal
from pathlib import Path

import pytest

from workorders.core.exceptions import ConfigurationError
from workorders.kafka.airflow.connections import connect_server as connect_server_of
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


def run(**conf: str) -> None:
    serve(host="0.0.0.0", port=0, master="local[1]", jars=[], conf=conf, ready=lambda *_: None)


def test_the_server_makes_a_token_if_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    tokens = set()
    for _ in range(2):
        with pytest.raises(StartedError):
            run()
        tokens.add(os.environ[TOKEN_VARIABLE])
        monkeypatch.setenv(TOKEN_VARIABLE, "")
    assert {len(token) for token in tokens} == {43}
    assert len(tokens) == 2


def test_only_this_user_reads_the_token_and_a_connection_without_a_password_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = connect_server._write_token(15010, "made")
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("AIRFLOW_CONN_WARM", '{"conn_type": "spark_connect", "port": 15010}')
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", '{"conn_type": "spark_connect", "port": 15010, "password": "theirs"}')
    found = [connect_server_of(name) for name in ("warm", "other")]
    assert [server.token for server in found if server] == ["made", "theirs"]


@pytest.mark.parametrize(
    "name", [f"spark.connect.{name}" for name in ("grpc.binding.address", "grpc.binding.port", "authenticate.token")]
)
def test_no_setting_opens_the_server(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"--conf {name} would let others run any code"):
        run(**{name: "x"})


def test_the_token_may_be_in_a_mounted_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "")
    (tmp_path / "token").write_text("a token\n")
    monkeypatch.setenv(f"{TOKEN_VARIABLE}_FILE", str(tmp_path / "token"))
    with pytest.raises(StartedError):
        run()
    assert os.environ[TOKEN_VARIABLE] == "a token"
