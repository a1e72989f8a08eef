import os
from pathlib import Path

import pytest

from workorders.cli import connections
from workorders.core.exceptions import ConfigurationError


@pytest.fixture(autouse=True)
def nothing_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "airflow_is_configured", lambda: False)
    monkeypatch.delenv("WORKORDERS_KAFKA", raising=False)


def test_kafka_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKORDERS_KAFKA", '{"bootstrap.servers": "a:1"}')
    assert connections.kafka_settings("kafka_default") == {"bootstrap.servers": "a:1"}


@pytest.mark.parametrize("text", ["secret", '["secret"]', '"secret"'])
def test_what_is_no_json_object_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("WORKORDERS_KAFKA", text)
    with pytest.raises(ConfigurationError) as raised:
        connections.kafka_settings("kafka_default")
    assert "secret" not in str(raised.value)


def test_without_kafka_the_sentence_names_the_connection() -> None:
    with pytest.raises(
        ConfigurationError,
        match="so its connection kafka_eu was not read; set WORKORDERS_KAFKA to ",
    ):
        connections.kafka_settings("kafka_eu")


def test_an_airflow_connection_is_looked_up_where_airflow_is_configured() -> None:
    with pytest.raises(ConfigurationError, match="so its connection shop_db was not read; give another one, or run"):
        connections.airflow_database_url("shop_db")


def test_airflow_is_configured_by_its_file_or_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    for name in list(os.environ):
        if name.startswith("AIRFLOW"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    assert not connections.airflow_is_configured()
    (tmp_path / "airflow.cfg").touch()
    assert connections.airflow_is_configured()
    (tmp_path / "airflow.cfg").unlink()
    monkeypatch.setenv("AIRFLOW_CONN_WORKORDERS_DB", "postgresql://a@b/c")
    assert connections.airflow_is_configured()


def test_database_and_kafka_may_be_in_mounted_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, text in (("WORKORDERS_DATABASE_URL", "postgresql:///orders\n"), ("WORKORDERS_KAFKA", '{"a": "b"}')):
        monkeypatch.delenv(name, raising=False)
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    assert connections.database_url(None) == "postgresql:///orders"
    assert connections.database_url("postgresql:///given") == "postgresql:///given"
    assert connections.kafka_settings("kafka_default") == {"a": "b"}
