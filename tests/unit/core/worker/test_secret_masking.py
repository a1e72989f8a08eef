"""Known secrets, and texts without them."""

import json

from workorders.core.worker.secret_masking import Mask, secrets_of

PASSWORD = "p@ss w0rd/ü"


def test_secrets_are_known_by_the_names_of_variables_and_inside_of_connections() -> None:
    environment = {
        "MY_API_KEY": "key-12345",
        "WORKORDERS_DATABASE_URL": "postgresql://nurse:url%40word@db/workorders?sslpassword=sslword",
        "AIRFLOW_CONN_KAFKA": json.dumps(
            {"password": "conn-word", "extra": {"sasl.password": "sasl-word", "group.id": "readers"}}
        ),
        "AIRFLOW_CONN_NESTED": json.dumps({"extra": json.dumps({"secret_key": "nested-word"})}),
        "PLAIN": "host=db password='quoted word' user=nurse",
        "HOME": "/home/nurse",
    }
    found = secrets_of(environment)
    assert {"key-12345", "url@word", "url%40word", "sslword", "conn-word", "sasl-word", "nested-word"} <= found
    assert "quoted word" in found
    assert not {"nurse", "readers", "/home/nurse", "db"} & found


def test_a_secret_is_masked_in_every_form_in_which_it_may_be_written() -> None:
    mask = Mask(secrets_of({"DB_PASSWORD": PASSWORD}))
    for text in (PASSWORD, "p%40ss%20w0rd%2F%C3%BC", json.dumps(PASSWORD), json.dumps(PASSWORD, ensure_ascii=False)):
        masked = mask(f"before {text} after")
        assert masked.replace('"', "") == "before *** after"


def test_of_two_secrets_the_longer_one_is_masked_whole() -> None:
    assert Mask(["secret", "secret-and-more"])("a secret-and-more b secret") == "a *** b ***"


def test_what_is_too_short_to_be_told_from_a_word_is_left_alone() -> None:
    mask = Mask(secrets_of({"TOKEN": "test"}))
    assert mask("a test") == "a test"
    assert mask.longest == 0
