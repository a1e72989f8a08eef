import pytest

from workorders.core.secret_headers import carries_a_secret


@pytest.mark.parametrize(
    "header",
    [
        "Authorization",
        "x-api-key",
        "apikey",
        "set-cookie",
        "x-hub-signature-256",
        "X-CSRF-Token",
        "proxy-authorization",
    ],
)
def test_a_name_that_says_secret_is_known(header: str) -> None:
    assert carries_a_secret(header)


@pytest.mark.parametrize(
    "header", ["traceparent", "idempotency-key", "content-type", "x-request-id", "author", "x-author-id", "", "\ufffd"]
)
def test_other_names_carry_no_secret(header: str) -> None:
    assert not carries_a_secret(header)
