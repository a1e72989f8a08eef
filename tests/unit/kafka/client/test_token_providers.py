"""Functions for tokens: named in the settings, called by librdkafka, and never the end of a client."""

import logging
import sys
import time
from types import SimpleNamespace

import pytest

from support.given_token import token
from workorders.kafka.airflow.connections import google
from workorders.kafka.client.token_providers import CALLBACK, GOOGLE, MSK_IAM, token_callback
from workorders.kafka.exceptions import ClientSettingsError, KafkaRefusedError

SERVERS = {"bootstrap.servers": "b:1"}


def test_the_function_is_called_once_before_the_client_starts_and_then_for_each_further_token() -> None:
    callback = token_callback({**SERVERS, CALLBACK: f"{token.__module__}.token", "sasl.oauthbearer.config": "first"})
    assert callback("second")[0] == "first"
    assert callback("second")[0] == "second"


@pytest.mark.parametrize("name", ["nowhere.token", "support.given_token.nothing", "token", ""])
def test_a_function_that_is_not_here_is_named(name: str) -> None:
    with pytest.raises(ClientSettingsError, match=f"oauth_cb names {name}, which cannot be imported on this machine"):
        token_callback({**SERVERS, CALLBACK: name})


def test_a_function_that_fails_is_named_with_its_reason() -> None:
    reason = "support.given_token.no_token returned no token: RuntimeError: no credentials in the cloud. Check the"
    with pytest.raises(KafkaRefusedError, match=f"^Kafka at b:1 was not asked, because {reason}"):
        token_callback({**SERVERS, CALLBACK: "support.given_token.no_token"})


def test_a_function_that_fails_later_gives_an_expired_token_and_logs_the_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    callback = token_callback({**SERVERS, CALLBACK: "support.given_token.token"})
    callback("")
    monkeypatch.setattr("support.given_token.time", None)
    with caplog.at_level(logging.ERROR):
        assert callback("")[1] < time.time()
    assert "support.given_token.token returned no token: AttributeError" in caplog.text


def test_amazons_library_is_asked_for_the_region_and_its_milliseconds_become_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    provider = SimpleNamespace(generate_auth_token=lambda region: (f"for {region}", 1_700_000_000_500))
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", SimpleNamespace(MSKAuthTokenProvider=provider))
    callback = token_callback({**SERVERS, CALLBACK: MSK_IAM, "sasl.oauthbearer.config": "region=eu-west-1"})
    assert callback("region=eu-west-1") == ("for eu-west-1", 1_700_000_000.5)


@pytest.mark.parametrize("name", [MSK_IAM, GOOGLE])
def test_a_library_of_a_cloud_that_is_not_installed_is_named(name: str) -> None:
    with pytest.raises(KafkaRefusedError, match=r"returned no token: ModuleNotFoundError: No module named '"):
        token_callback({**SERVERS, CALLBACK: name})


def test_googles_function_is_the_one_that_the_settings_name() -> None:
    assert f"{google.__module__}.{google.__name__}" == GOOGLE
