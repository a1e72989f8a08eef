"""Secrets reach `spark-submit` by its environment and in no other way: seen from a real process."""

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from local_stack.certificates import Authority
from workorders.core.environment import DATABASE_URL_VARIABLE
from workorders.core.exceptions import ConfigurationError, one_line
from workorders.kafka.client.java_settings import java_settings
from workorders.kafka.client.secrets import KAFKA_VARIABLE, REGISTRY_VARIABLE, JobSecrets, settings_from_environment
from workorders.kafka.client.settings import client_settings

SECRET = "correct horse battery staple"
PROGRAM = """#!{python}
import json, os, sys
from pathlib import Path
Path(os.environ["SEEN"]).write_text(json.dumps({{"arguments": sys.argv[1:], "environment": dict(os.environ)}}))
sys.exit(int(os.environ.get("EXIT_CODE", "0")))
"""


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a `spark-submit` first on the path that writes down how it was called, and return where."""
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[1]"}))
    return tmp_path / "seen.json"


def submit(**settings: object) -> None:
    hook = SparkSubmitHook(conn_id="spark_default", application_args=["--batch", "7"], **settings)  # type: ignore[arg-type]
    with JobSecrets("postgresql:///orders", {"sasl.password": SECRET}).in_environment():
        hook.submit("application.py")


def test_the_process_finds_the_secret_in_its_environment_and_nothing_else_does(
    seen: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    submit(env_vars={"PLAIN": "shown"})
    called = json.loads(seen.read_text())
    assert json.loads(called["environment"][KAFKA_VARIABLE]) == {"sasl.password": SECRET}
    assert called["environment"][DATABASE_URL_VARIABLE] == "postgresql:///orders"
    assert called["environment"]["PLAIN"] == "shown"
    assert called["arguments"][-3:] == ["application.py", "--batch", "7"]
    printed = capfd.readouterr()
    assert SECRET not in " ".join(called["arguments"]) + caplog.text + printed.out + printed.err
    assert "spark-submit" in caplog.text + printed.out + printed.err


def test_a_failure_does_not_repeat_the_secret(seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EXIT_CODE", "3")
    with pytest.raises(Exception, match="Error code is: 3") as raised:
        submit()
    assert SECRET not in str(raised.value)


def test_the_environment_of_this_process_stays_as_it_was(seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KAFKA_VARIABLE, raising=False)
    monkeypatch.setenv(DATABASE_URL_VARIABLE, "postgresql:///mine")
    submit()
    assert KAFKA_VARIABLE not in os.environ
    assert os.environ[DATABASE_URL_VARIABLE] == "postgresql:///mine"


def test_an_error_that_prints_the_settings_of_a_client_is_masked() -> None:
    password = 'horse "battery"'
    given = {"bootstrap.servers": "b:1", "security.protocol": "sasl_plaintext", "sasl.mechanism": "PLAIN"}
    secrets = JobSecrets("postgresql:///orders", {**given, "sasl.username": "ann", "sasl.password": password})
    module, options = java_settings(secrets.kafka)["sasl.jaas.config"].split(" required ")
    masked = secrets.mask("\n".join([module, options, password]))
    assert "horse" not in masked
    assert "battery" not in masked
    assert 'username="ann" password=***;' in masked
    assert JobSecrets("", {"ssl.key.password": "a"}).mask("a batch") == "a batch"


def test_keys_and_logins_are_masked_in_every_form_in_which_a_client_gets_them() -> None:
    client = Authority.create("root").client("client")
    kafka: dict[str, Any] = {
        "bootstrap.servers": "b:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": SECRET,
        "ssl.certificate.pem": client.chain,
        "ssl.key.pem": client.key("p4ssphrase"),
        "ssl.key.password": "p4ssphrase",
        "java": {"sasl.jaas.config": f'Login required password="{SECRET}";'},
    }
    secrets = JobSecrets("postgresql:///orders", kafka)
    java, plain = java_settings(kafka), client.key()
    text = "\n".join([*java.values(), *client_settings(kafka).values(), *map(str, kafka.values()), one_line(plain)])
    masked = secrets.mask(text)
    assert client.chain in masked
    for secret in (SECRET, "p4ssphrase", "PRIVATE KEY", plain.splitlines()[1]):
        assert secret in text
        assert secret not in masked


def test_secrets_come_from_mounted_files_without_the_end_of_their_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in ((DATABASE_URL_VARIABLE, "postgresql:///orders\n"), (KAFKA_VARIABLE, '{"a": "b"}')):
        monkeypatch.delenv(name, raising=False)
        (tmp_path / name).write_text(text)
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))
    found = JobSecrets.from_environment()
    assert (found.database_url, found.kafka) == ("postgresql:///orders", {"a": "b"})
    with JobSecrets("postgresql:///given", {}).in_environment():
        assert JobSecrets.from_environment().database_url == "postgresql:///given"


def test_a_secret_that_is_not_there_is_named_by_both_ways_to_give_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (KAFKA_VARIABLE, f"{KAFKA_VARIABLE}_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match=r"Neither of .* WORKORDERS_KAFKA and WORKORDERS_KAFKA_FILE is set"):
        JobSecrets.from_environment()
    monkeypatch.setenv(f"{KAFKA_VARIABLE}_FILE", "/nowhere/kafka.json")
    with pytest.raises(ConfigurationError, match=r"/nowhere/kafka\.json that WORKORDERS_KAFKA_FILE names cannot be"):
        JobSecrets.from_environment()


def test_the_login_of_the_schema_registry_travels_and_is_masked_like_that_of_kafka(
    seen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = f"ann:{SECRET}"
    secrets = JobSecrets("postgresql:///orders", {}, {"url": "https://registry", "basic.auth.user.info": login})
    with secrets.in_environment():
        assert JobSecrets.from_environment() == secrets
    assert REGISTRY_VARIABLE not in os.environ
    assert secrets.mask(f"wrong: {login}") == "wrong: ***"
    monkeypatch.setenv(REGISTRY_VARIABLE, "[1]")
    with pytest.raises(ConfigurationError, match=f"{REGISTRY_VARIABLE} is not a JSON object"):
        settings_from_environment(REGISTRY_VARIABLE)
