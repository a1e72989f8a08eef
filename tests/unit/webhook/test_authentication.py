from base64 import b64encode

from workorders.webhook.authentication import ApiKey, Basic
from workorders.webhook.method import Secret


def test_a_secret_may_have_letters_beyond_ascii() -> None:
    secret = Secret("zoë", "schlüssel")
    as_it_comes = "schlüssel".encode().decode("latin-1")
    key, basic = ApiKey(type="api_key", connection="c"), Basic(type="basic", connection="c")
    assert key.fault(secret, {"x-api-key": as_it_comes}) is None
    given = b64encode("zoë:schlüssel".encode()).decode()
    assert basic.fault(secret, {"authorization": f"basic {given}"}) is None
    assert basic.fault(secret, {"authorization": f"Basic {given[:-4]}"}) is not None


def test_all_who_know_the_secret_may_see_each_others_results() -> None:
    assert ApiKey(type="api_key", connection="c").proves("key")


def test_the_form_of_a_password_is_checked_without_the_secret() -> None:
    basic = Basic(type="basic", connection="c")
    assert basic.missing({"authorization": "Basic eDp5"}) is None
    assert basic.missing({"authorization": "Basic ???"}) is not None
    assert basic.missing({"authorization": "Bearer eDp5"}) is not None
