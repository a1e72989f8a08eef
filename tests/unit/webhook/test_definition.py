from typing import Any

import pytest

from workorders.core.definitions.validation import validate
from workorders.core.exceptions import ConfigurationError
from workorders.webhook.authentication import ApiKey, Basic, Hmac, Slack, StandardWebhooks, Stripe
from workorders.webhook.definition import WebhookTriggerDefinition


def load(**fields: Any) -> WebhookTriggerDefinition:
    content = {"name": "shop", "type": "webhook", "workflow": "ship", "authentication": "public", **fields}
    given = {key: value for key, value in content.items() if value is not None}
    return validate(given, WebhookTriggerDefinition, where="a.yaml")


def complaint(**fields: Any) -> str:
    with pytest.raises(ConfigurationError) as refused:
        load(**fields)
    return str(refused.value)


def test_the_path_is_the_name_unless_given() -> None:
    assert (load().path, load(path="shop/orders").path) == ("shop", "shop/orders")


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"type": "api_key", "connection": "c"}, ApiKey),
        ({"type": "basic", "connection": "c"}, Basic),
        ({"type": "hmac", "connection": "c"}, Hmac),
        ({"type": "standard_webhooks", "connection": "c"}, StandardWebhooks),
        ({"type": "stripe", "connection": "c", "previous_connection": "d"}, Stripe),
        ({"type": "slack", "connection": "c"}, Slack),
    ],
)
def test_who_may_call_has_six_forms_and_public(given: dict[str, str], kind: type) -> None:
    assert isinstance(load(authentication=given).authentication, kind)


def test_a_webhook_without_authentication_is_refused() -> None:
    assert complaint(authentication=None) == "a.yaml: authentication: this field is required."


@pytest.mark.parametrize(
    "given",
    ["open", "", 7, [], {}, {"type": "hunter2"}, {"connection": "hunter2"}, {"type": ["hunter2"]}, "hunter2"],
)
def test_a_wrong_value_of_authentication_is_refused_and_not_repeated(given: object) -> None:
    assert complaint(authentication=given) == (
        "a.yaml: authentication: expected public, or a mapping with the type api_key, basic, hmac, standard_webhooks, "
        "stripe or slack."
    )


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"password": "hunter2"}, "authentication.hmac.password: there is no such field"),
        ({"header": "a b"}, "authentication.hmac.header: expected the name of a header such as X-Signature"),
        ({"algorithm": "md5"}, "authentication.hmac.algorithm: expected sha256 or sha512, got 'md5'."),
        ({"encoding": "raw"}, "authentication.hmac.encoding: expected hex or base64, got 'raw'."),
        ({"tolerance": "1m"}, "authentication.hmac: expected timestamp_header with tolerance"),
        ({"connection": ""}, "authentication.hmac.connection: expected the id of an Airflow connection"),
        ({"type": "slack", "tolerance": "0s"}, "authentication.slack.tolerance: expected a number of seconds"),
        ({"type": "stripe", "header": "x"}, "authentication.stripe.header: there is no such field"),
        ({"type": "standard_webhooks", "header_prefix": "clerk"}, "expected webhook or svix, got 'clerk'."),
        ({"type": "standard_webhooks", "tolerance": "1m"}, "standard_webhooks.tolerance: there is no such field"),
        ({"type": "api_key", "previous_connection": 7}, "api_key.previous_connection: expected the id of an Airflow"),
    ],
)
def test_a_wrong_field_of_a_method_is_named(given: dict[str, object], sentence: str) -> None:
    found = complaint(authentication={"type": "hmac", "connection": "c", **given})
    assert sentence in found
    assert "hunter2" not in found


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("path", "/shop", "expected small letters, digits, - and _, and / between parts"),
        ("path", "shop/../orders", "expected small letters"),
        ("path", "Shop", "expected small letters"),
        ("path", 7, "expected small letters"),
        ("headers", "all", "expected a list of header names"),
        ("headers", ["a\nb"], "expected the name of a header"),
        ("headers", ["X-Shop", "Authorization"], "the header authorization may carry a secret and is never stored."),
        ("headers", ["cookie"], "may carry a secret"),
        ("headers", ["X-Amz-Security-Token"], "may carry a secret"),
        ("headers", ["Webhook-Signature"], "may carry a secret"),
        ("headers", ["Svix-Signature"], "may carry a secret"),
        ("headers", ["Stripe-Signature"], "may carry a secret"),
        ("headers", ["X-Slack-Signature"], "may carry a secret"),
    ],
)
def test_a_wrong_value_is_answered_with_the_field_and_the_right_form(field: str, value: object, sentence: str) -> None:
    found = complaint(**{field: value})
    assert found.startswith(f"a.yaml: {field}")
    assert sentence in found


def test_the_header_that_carries_the_proof_is_never_kept() -> None:
    method = {"type": "api_key", "connection": "c", "header": "X-Shop"}
    assert "the header x-shop may carry a secret" in complaint(authentication=method, headers=["x-shop"])


@pytest.mark.parametrize("header", ["traceparent", "idempotency-key", "content-type", "x-request-id"])
def test_other_names_may_be_kept(header: str) -> None:
    assert load(headers=[header.upper()]).headers == (header,)


def test_a_definition_survives_the_way_through_the_database() -> None:
    before = load(authentication={"type": "hmac", "connection": "c", "timestamp_header": "X-Time", "tolerance": "1m"})
    assert WebhookTriggerDefinition.model_validate_json(before.model_dump_json()) == before


def by(key: str) -> dict[str, str]:
    return {"key": key, "window": "1h"}


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        (
            "header:X-GitHub-Delivery",
            "idempotency.key: expected one of the headers that a work order contains (content-type, user-agent, "
            "traceparent, tracestate, idempotency-key); add it to `headers`, got header:X-GitHub-Delivery, which no "
            "event of this trigger has.",
        ),
        ("header:authorization", "idempotency.key: expected one of the headers that a work order contains (content-"),
        ("stream", "idempotency.key: expected a selector such as body:/id, got stream, which no event of this"),
        (
            ["body:/id", "request:/topic"],
            "idempotency.key: expected a selector such as body:/id, or request:/ with one of headers, key, method, "
            "path, received_at, remote_address, got request:/topic",
        ),
    ],
)
def test_a_key_that_no_request_has_is_refused_with_what_requests_have(key: Any, sentence: str) -> None:
    assert complaint(idempotency=by(key)).startswith(f"a.yaml: {sentence}")
    assert complaint(sequence={"key": key, "number": "body:/n"}).startswith(
        f"a.yaml: {sentence.replace('idempotency.', 'sequence.')}"
    )


def test_a_number_that_no_request_has_is_refused_like_a_key() -> None:
    found = complaint(sequence={"key": "body:/id", "number": "header:x-number"})
    assert found.startswith("a.yaml: sequence.number: expected one of the headers")
    assert load(sequence={"key": "body:/id", "number": "header:x-number"}, headers=["X-Number"]).sequence


def test_the_id_of_a_standard_webhook_is_the_events_own_key() -> None:
    method = {"type": "standard_webhooks", "connection": "c"}
    assert load(authentication=method).key_header == "webhook-id"
    for other in ("public", {"type": "stripe", "connection": "c"}, {"type": "slack", "connection": "c"}):
        assert load(authentication=other).key_header == "idempotency-key"


@pytest.mark.parametrize(
    ("type_", "repeats"),
    [
        ("public", False),
        ("api_key", True),
        ("basic", True),
        ("hmac", False),
        ("standard_webhooks", False),
        ("stripe", False),
        ("slack", False),
    ],
)
def test_a_repeated_request_gets_the_output_only_from_who_sent_the_secret(type_: str, *, repeats: bool) -> None:
    method = type_ if type_ == "public" else {"type": type_, "connection": "c"}
    assert load(authentication=method, reply="after_completion").repeats_outputs == repeats


def test_texts_of_exceptions_are_sent_to_known_callers_by_default() -> None:
    key = {"type": "api_key", "connection": "c"}
    results = [
        load(authentication=authentication, reply_with_errors=tells).tells_errors
        for authentication in ("public", key)
        for tells in (None, True, False)
    ]
    assert results == [False, True, False, True, True, False]
