"""Signatures as others publish them."""

from base64 import b64encode
from hashlib import sha256, sha512
from hmac import new

from workorders.webhook.method import Secret
from workorders.webhook.signatures import Hmac


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


def test_a_caller_that_does_not_know_the_secret_learns_nothing_of_the_time() -> None:
    method = Hmac(type="hmac", connection="c", timestamp_header="x-time")
    fault = method.fault(Secret("", "s"), {"x-time": "0", "x-signature": "0" * 64}, b"{}", now=1e9)
    assert fault == "no signature in the header x-signature is the one of this request"


BOUND = Hmac(type="hmac", connection="c", signed_headers=("idempotency-key", "x-shop"))
SHARED = Secret("", "s")


def fault(signed: bytes, path: str, **headers: str) -> str | None:
    signature = new(b"s", signed, sha256).hexdigest()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return BOUND.fault(SHARED, {"x-signature": signature, **given}, b"{}", path=path)


def test_path_and_headers_are_signed_a_line_each_before_the_body() -> None:
    signed = b"shop/orders\nidempotency-key:17\nx-shop:north\n{}"
    assert fault(signed, "shop/orders", idempotency_key="17", x_shop="north") is None
    assert fault(signed, "shop/orders", idempotency_key="18", x_shop="north") is not None
    assert fault(signed, "shop/others", idempotency_key="17", x_shop="north") is not None
    assert fault(b"{}", "shop/orders", idempotency_key="17", x_shop="north") is not None


def test_a_signed_header_can_neither_be_added_nor_taken_away() -> None:
    signed = b"shop\nidempotency-key:\nx-shop:north\n{}"
    assert fault(signed, "shop", x_shop="north") is None
    assert fault(signed, "shop", x_shop="north", idempotency_key="17") is not None
    assert fault(signed, "shop") is not None


def test_an_empty_list_signs_the_path_alone_and_the_time_comes_first() -> None:
    method = Hmac(type="hmac", connection="c", signed_headers=(), timestamp_header="x-time")
    headers = {"x-time": "1000", "x-signature": new(b"s", b"1000.shop\n{}", sha256).hexdigest()}
    assert method.fault(SHARED, headers, b"{}", path="shop", now=1000) is None
    assert method.fault(SHARED, headers, b"{}", path="other", now=1000) is not None


def test_only_what_is_signed_is_known_to_be_the_callers() -> None:
    proved = [BOUND.proves(text) for text in ("body", "body:/id", "key", "header:X-Shop", "header:x-other")]
    assert proved == [True, True, True, True, False]
    unsigned = Hmac(type="hmac", connection="c")
    assert [unsigned.proves(text) for text in ("body:/id", "key", "header:x", "request:/key", "stream")] == [
        True,
        False,
        False,
        False,
        False,
    ]


def test_the_form_of_a_proof_is_checked_without_the_secret() -> None:
    hmac = Hmac(type="hmac", connection="c", prefix="v1=")
    assert hmac.missing({"x-signature": "v1=" + "0" * 64}) is None
    assert hmac.missing({}) == "the header x-signature with the signature is missing"
    assert "does not have the length" in str(hmac.missing({"x-signature": "0" * 64}))
    timed = Hmac(type="hmac", connection="c", timestamp_header="x-time")
    assert "time of the signature is missing" in str(timed.missing({"x-signature": "0" * 64}))
