"""Keys and passwords; signatures as Slack, Stripe, and Standard Webhooks document them, made by separate programs."""

import time
from base64 import b64decode, b64encode
from hashlib import sha256, sha512
from hmac import new

import pytest

from workorders.webhook.authentication import ApiKey, Basic, Hmac, Secret, Slack, StandardWebhooks, Stripe

SHARED = Secret("", "s")
BODY = b'{"test": 2432232314}'
# The secret of the specification's own example.
KEY = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
STANDARD = StandardWebhooks(type="standard_webhooks", connection="c")
STRIPE = Stripe(type="stripe", connection="c")
SLACK = Slack(type="slack", connection="c")
ENDPOINT = Secret("", "whsec_stripe")


def test_the_signature_is_the_one_that_github_documents() -> None:
    method = Hmac(type="hmac", connection="c", header="X-Hub-Signature-256", prefix="sha256=")
    secret = Secret("", "It's a Secret to Everybody")
    headers = {
        "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    }
    assert method.fault(secret, headers, b"Hello, World!") is None
    assert method.fault(secret, headers, b"Hello, World?") is not None


def test_a_signature_may_be_written_otherwise() -> None:
    method = Hmac(type="hmac", connection="c", algorithm="sha512", encoding="base64")
    signature = b64encode(new(b"s", b"{}", sha512).digest()).decode()
    assert method.fault(SHARED, {"x-signature": signature}, b"{}") is None


def test_the_time_may_be_as_far_from_now_as_the_tolerance() -> None:
    method = Hmac(type="hmac", connection="c", timestamp_header="x-time", tolerance=60)
    headers = {"x-time": "1000", "x-signature": new(b"s", b"1000.{}", sha256).hexdigest()}
    assert [method.fault(SHARED, headers, b"{}", now=now) is None for now in (939, 940, 1000, 1060, 1061)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_a_caller_that_does_not_know_the_secret_learns_nothing_of_the_time() -> None:
    method = Hmac(type="hmac", connection="c", timestamp_header="x-time")
    fault = method.fault(SHARED, {"x-time": "0", "x-signature": "0" * 64}, b"{}", now=1e9)
    assert fault == "no signature in the header x-signature is the one of this request"


def test_the_form_of_a_proof_is_checked_without_the_secret() -> None:
    hmac = Hmac(type="hmac", connection="c", prefix="v1=")
    assert hmac.missing({"x-signature": "v1=" + "0" * 64}) is None
    assert hmac.missing({}) == "the header x-signature with the signature is missing"
    assert "does not have the length" in str(hmac.missing({"x-signature": "0" * 64}))
    timed = Hmac(type="hmac", connection="c", timestamp_header="x-time")
    assert "time of the signature is missing" in str(timed.missing({"x-signature": "0" * 64}))


def standard(
    *, key: str = KEY, age: float = 0.0, id_: str = "msg_1", body: bytes = BODY, prefix: str = "webhook"
) -> dict[str, str]:
    """Return the headers of a request by Standard Webhooks."""
    at = str(int(time.time() - age))
    digest = new(b64decode(key), f"{id_}.{at}.".encode() + body, sha256).digest()
    signature = f"v1,{b64encode(digest).decode()}"
    return {f"{prefix}-id": id_, f"{prefix}-timestamp": at, f"{prefix}-signature": signature}


def stripe(secret: str = "whsec_stripe", at: str = "1000", body: bytes = BODY) -> str:
    return "v1=" + new(secret.encode(), f"{at}.".encode() + body, sha256).hexdigest()


@pytest.mark.parametrize("password", [KEY, f"whsec_{KEY}"])
def test_for_standard_webhooks_a_signature_by_the_secret_is_accepted(password: str) -> None:
    assert STANDARD.fault(Secret("", password), standard(), BODY, now=time.time()) is None


def test_for_standard_webhooks_other_bytes_another_id_and_another_secret_are_refused() -> None:
    wrong = "no signature in the header webhook-signature is the one of this request"
    secret = Secret("", KEY)
    assert STANDARD.fault(secret, standard(), BODY + b" ") == wrong
    assert STANDARD.fault(secret, standard() | {"webhook-id": "msg_2"}, BODY) == wrong
    assert STANDARD.fault(secret, standard(key="AAAA"), BODY) == wrong


@pytest.mark.parametrize(("age", "is_near"), [(302, False), (-302, False), (290, True), (-290, True)])
def test_for_standard_webhooks_the_time_may_be_five_minutes_from_now(age: float, *, is_near: bool) -> None:
    fault = STANDARD.fault(Secret("", KEY), standard(age=age), BODY, now=time.time())
    assert fault == (None if is_near else "the time in the header webhook-timestamp is not within 300 s of now")


def test_for_standard_webhooks_one_of_several_signatures_is_enough_also_behind_one_of_another_kind() -> None:
    headers = standard()
    right = headers["webhook-signature"]
    headers["webhook-signature"] = f"v1a,hnO3f9T8 malformed v1,,, {standard(key='AAAA')['webhook-signature']} {right}"
    assert STANDARD.fault(Secret("", KEY), headers, BODY, now=time.time()) is None


def test_for_standard_webhooks_the_headers_of_svix_are_read_by_their_names() -> None:
    method = StandardWebhooks(type="standard_webhooks", connection="c", header_prefix="svix")
    assert method.fault(Secret("", KEY), standard(prefix="svix"), BODY, now=time.time()) is None
    assert method.missing(standard()) == "the header svix-id of Standard Webhooks is missing"


@pytest.mark.parametrize("changed", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_for_standard_webhooks_a_missing_header_is_named_without_the_secret(changed: str) -> None:
    assert changed in str(STANDARD.missing(standard() | {changed: ""}))
    assert STANDARD.missing(standard()) is None


@pytest.mark.parametrize("signature", ["v1", "v1,", "v2,AAAA", "v1,AAAA", "nonsense"])
def test_for_standard_webhooks_what_cannot_be_a_signature_is_refused_without_the_secret(signature: str) -> None:
    assert "in the form v1,<base64>" in str(STANDARD.missing(standard() | {"webhook-signature": signature}))


def test_for_standard_webhooks_hostile_headers_and_bodies_are_refused_and_no_error() -> None:
    secret = Secret("", KEY)
    for time_text in ("nan", "1e99", "-1", "soon", "9" * 400):
        assert STANDARD.fault(secret, standard() | {"webhook-timestamp": time_text}, BODY) is not None
    assert STANDARD.fault(secret, standard() | {"webhook-id": "\xff\ud800"}, BODY) is not None


@pytest.mark.parametrize("password", ["whsec_", "whsec_abcde", "ü"])
def test_for_standard_webhooks_a_secret_of_another_form_is_named_and_not_repeated(password: str) -> None:
    assert STANDARD.fault(Secret("", password), standard(), BODY) == (
        "the secret of this webhook is not one of Standard Webhooks, which is base64 after whsec_"
    )


def test_for_standard_webhooks_the_id_is_signed_and_the_key_of_the_event() -> None:
    assert STANDARD.key_header == "webhook-id"


def test_a_time_is_near_on_both_sides_and_what_is_no_number_is_not() -> None:
    method = Hmac(type="hmac", connection="c", timestamp_header="x-time", tolerance=5)

    def is_near(text: str) -> bool:
        headers = {"x-time": text, "x-signature": new(b"s", f"{text}.".encode(), sha256).hexdigest()}
        return method.fault(SHARED, headers, now=1000) is None

    found = [is_near(text) for text in ("995", "1005", "994.9", "1006", "nan", "inf", "soon", "")]
    assert found == [True, True, *[False] * 6]


def test_for_stripe_a_signature_by_the_secret_is_accepted_and_any_other_is_not() -> None:
    headers = {
        "stripe-signature": f"t=1000,{stripe()},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"
    }
    assert STRIPE.fault(ENDPOINT, headers, BODY, now=1000) is None
    wrong = "no signature in the header stripe-signature is the one of this request"
    assert STRIPE.fault(ENDPOINT, headers, BODY + b" ", now=1000) == wrong
    assert STRIPE.fault(Secret("", "stripe"), headers, BODY, now=1000) == wrong
    later = headers["stripe-signature"].replace("t=1000", "t=1001")
    assert STRIPE.fault(ENDPOINT, {"stripe-signature": later}, BODY, now=1000) == wrong


def test_for_stripe_one_of_several_signatures_is_enough() -> None:
    headers = {"stripe-signature": f"t=1000,{stripe('whsec_old')},{stripe()}"}
    assert STRIPE.fault(ENDPOINT, headers, BODY, now=1000) is None
    assert STRIPE.fault(Secret("", "whsec_old"), headers, BODY, now=1000) is None


def test_for_stripe_the_time_may_be_as_far_from_now_as_the_tolerance() -> None:
    method, headers = (
        Stripe(type="stripe", connection="c", tolerance=60),
        {"stripe-signature": f"t=1000,{stripe()}"},
    )
    faults = [method.fault(ENDPOINT, headers, BODY, now=now) for now in (939, 940, 1060, 1061)]
    outside = "the time in the header stripe-signature is not within 60 s of now"
    assert faults == [outside, None, None, outside]


@pytest.mark.parametrize("header", ["", "t=1000", f"v1={'0' * 64}", f"t=,v1={'0' * 64}", "t=1000,v1=abc", "t=nan"])
def test_for_stripe_what_cannot_be_a_signature_is_refused_without_the_secret(header: str) -> None:
    assert "not in the form t=<time>,v1=<hex>" in str(STRIPE.missing({"stripe-signature": header}))
    assert STRIPE.missing({}) == "the header stripe-signature is missing"


def test_for_stripe_a_caller_that_does_not_know_the_secret_learns_nothing_of_the_time() -> None:
    fault = STRIPE.fault(ENDPOINT, {"stripe-signature": f"t=0,v1={'0' * 64}"}, BODY, now=1e9)
    assert "the one of this request" in str(fault)


def test_for_slack_the_signature_is_the_one_that_slack_documents() -> None:
    secret = Secret("", "8f742231b10e8888abcd99yyyzzz85a5")
    body = (
        b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&"
        b"channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url="
        b"https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id="
        b"398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
    )
    headers = {
        "x-slack-request-timestamp": "1531420618",
        "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    }
    assert SLACK.fault(secret, headers, body, now=1531420618) is None
    wrong = "no signature in the header x-slack-signature is the one of this request"
    assert SLACK.fault(secret, headers, body + b" ", now=1531420618) == wrong
    later = headers | {"x-slack-request-timestamp": "1531420619"}
    assert SLACK.fault(secret, later, body, now=1531420618) == wrong
    outside = "the time in the header x-slack-request-timestamp is not within 300 s of now"
    assert [SLACK.fault(secret, headers, body, now=1531420618 + away) for away in (-301, -300, 300, 301)] == [
        outside,
        None,
        None,
        outside,
    ]


@pytest.mark.parametrize(("name", "value"), [("x-slack-signature", "v0=abc"), ("x-slack-request-timestamp", "nan")])
def test_for_slack_what_cannot_be_a_signature_is_refused_without_the_secret(name: str, value: str) -> None:
    right = {"x-slack-signature": f"v0={'0' * 64}", "x-slack-request-timestamp": "1000"}
    assert SLACK.missing(right) is None
    assert SLACK.missing(right | {name: value}) == f"the header {name} is not in the form that Slack sends"
    del right[name]
    assert SLACK.missing(right) == f"the header {name} is missing"


@pytest.mark.parametrize(
    ("body", "challenge"),
    [
        (b'{"type": "url_verification", "challenge": "3eZb"}', "3eZb"),
        (b'{"type": "url_verification", "challenge": 7}', None),
        (b'{"type": "event_callback", "challenge": "3eZb"}', None),
        (b"[]", None),
        (b"{", None),
    ],
)
def test_for_slack_only_the_check_of_a_url_has_a_challenge(body: bytes, challenge: str | None) -> None:
    assert SLACK.challenge(body) == challenge


def test_a_secret_is_not_printed() -> None:
    assert "hunter2" not in repr(Secret("hunter2", "hunter2"))


def test_the_current_secret_is_tried_first_and_one_that_is_named_twice_once() -> None:
    fields = {"type": "api_key", "connection": "new"}
    found = [
        ApiKey.model_validate({**fields, **more}).connections
        for more in ({}, {"previous_connection": "old"}, {"previous_connection": "new"})
    ]
    assert found == [("new",), ("new", "old"), ("new",)]


def test_a_secret_may_have_letters_beyond_ascii() -> None:
    secret = Secret("zoë", "schlüssel")
    as_it_comes = "schlüssel".encode().decode("latin-1")
    key, basic = ApiKey(type="api_key", connection="c"), Basic(type="basic", connection="c")
    assert key.fault(secret, {"x-api-key": as_it_comes}) is None
    given = b64encode("zoë:schlüssel".encode()).decode()
    assert basic.fault(secret, {"authorization": f"basic {given}"}) is None
    assert basic.fault(secret, {"authorization": f"Basic {given[:-4]}"}) is not None


def test_the_form_of_a_password_is_checked_without_the_secret() -> None:
    basic = Basic(type="basic", connection="c")
    assert basic.missing({"authorization": "Basic eDp5"}) is None
    assert basic.missing({"authorization": "Basic ???"}) is not None
    assert basic.missing({"authorization": "Bearer eDp5"}) is not None
