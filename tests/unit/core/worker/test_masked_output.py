"""Outputs that hold known secrets."""

import json
from typing import Any

import pytest

from workorders.core.worker.json_values import dumps, loads
from workorders.core.worker.masked_output import masked
from workorders.core.worker.secret_masking import Mask, secrets_of

PASSWORD = 'pä"ss\\word'
MASK = Mask(secrets_of({"DB_PASSWORD": PASSWORD, "PIN_TOKEN": "12345", "SHARED_SECRET": '1,"b":2'}))


@pytest.mark.parametrize(
    ("returned", "kept"),
    [
        (f"it is {PASSWORD}.", "it is ***."),
        ({"dsn": [{"password": PASSWORD}], "n": 1}, {"dsn": [{"password": "***"}], "n": 1}),
        ({PASSWORD: 1}, {"***": 1}),
        # JSON in JSON, as what another service answered: the secret is written in yet another form.
        ({"answer": json.dumps({"p": PASSWORD})}, {"answer": '{"p": "***"}'}),
        (12345, "***"),
        ({"pin": 12345, "text": "x12345x"}, {"pin": "***", "text": "x***x"}),
    ],
)
def test_a_secret_is_masked_wherever_it_stands(returned: Any, kept: Any) -> None:
    assert loads(masked(dumps(returned), MASK)) == kept


@pytest.mark.parametrize(
    "returned",
    [
        {"n": 1, "text": "nothing"},
        # What looks like a secret in the text alone, across values or as a part of a number, is none.
        {"a": 1, "b": 2},
        [9912345],
        [1234567890123456789012345, 0.1, 1e300, None, True, 'quoted "word" \\ ü 🦉'],
        "",
    ],
)
def test_an_output_without_a_secret_stays_as_it_is_to_the_byte(returned: Any) -> None:
    assert masked(dumps(returned), MASK) == dumps(returned)


def test_what_cannot_be_looked_through_is_masked_whole() -> None:
    deep = b"[" * 100_000 + b'"12345"' + b"]" * 100_000
    assert masked(deep, MASK) == b'"***"'
