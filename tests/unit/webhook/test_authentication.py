"""Signatures as others publish them, and a secret that is never shown."""

from base64 import b64encode
from hashlib import sha256, sha512
from hmac import new

from workorders.webhook.authentication import ApiKey, Basic, Hmac, Secret


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
    assert method.fault(Secret("", "s"), {"x-signature": signature}, b"{}") is None


def test_the_time_may_be_as_far_from_now_as_the_tolerance() -> None:
    method = Hmac(type="hmac", connection="c", timestamp_header="x-time", tolerance=60)
    secret = Secret("", "s")
    headers = {"x-time": "1000", "x-signature": new(b"s", b"1000.{}", sha256).hexdigest()}
    assert [method.fault(secret, headers, b"{}", now=now) is None for now in (939, 940, 1000, 1060, 1061)] == [
        False,
        True,
        True,
        True,
        False,
    ]


def test_nothing_is_said_of_the_time_to_who_does_not_know_the_secret() -> None:
    method = Hmac(type="hmac", connection="c", timestamp_header="x-time")
    said = method.fault(Secret("", "s"), {"x-time": "0", "x-signature": "0" * 64}, b"{}", now=1e9)
    assert said == "the signature in the header x-signature is not the one of this request"


def test_a_secret_is_not_printed() -> None:
    assert "hunter2" not in repr(Secret("hunter2", "hunter2"))


def test_a_secret_may_have_letters_beyond_ascii() -> None:
    secret = Secret("zoë", "schlüssel")
    as_it_comes = "schlüssel".encode().decode("latin-1")
    key, basic = ApiKey(type="api_key", connection="c"), Basic(type="basic", connection="c")
    assert key.fault(secret, {"x-api-key": as_it_comes}) is None
    given = b64encode("zoë:schlüssel".encode()).decode()
    assert basic.fault(secret, {"authorization": f"basic {given}"}) is None
    assert basic.fault(secret, {"authorization": f"Basic {given[:-4]}"}) is not None
