"""Only a form of ours, of the same user and not too old, changes anything."""

import time
from collections.abc import Mapping
from contextlib import nullcontext

import pytest
from fastapi import HTTPException
from itsdangerous import TimestampSigner
from starlette.requests import Request

from workorders.pages.forms import LIFETIME_SECONDS, new_token, require_number, require_own_origin, require_token

KEY = "the key of a test"


def test_a_token_of_the_user_is_accepted_until_it_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    token, now = new_token(KEY, "ada"), int(time.time())
    for later, is_accepted in ((0, True), (LIFETIME_SECONDS - 60, True), (LIFETIME_SECONDS + 60, False), (-60, False)):
        monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda _, later=later: now + later)
        with nullcontext() if is_accepted else pytest.raises(HTTPException, match="older than 12 h"):
            require_token(KEY, "ada", token)


@pytest.mark.parametrize("key_and_user", [("another key", "ada"), (KEY, "eve")])
def test_a_token_of_another_key_or_user_is_refused(key_and_user: tuple[str, str]) -> None:
    with pytest.raises(HTTPException, match="of another user"):
        require_token(*key_and_user, new_token(KEY, "ada"))


@pytest.mark.parametrize("text", ["", "x", "é", "a.b.c", "A" * 108, "=" * 50])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(HTTPException):
        require_token(KEY, "ada", text)


def test_two_tokens_of_one_moment_have_other_signatures() -> None:
    first, second = (new_token(KEY, "ada").rpartition(".")[2] for _ in range(2))
    assert not any(first[place : place + 8] == second[place : place + 8] for place in range(len(first) - 8))


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "same-origin", "origin": "https://elsewhere.example"},
        {"origin": "http://airflow.example"},
    ],
)
def test_a_request_of_our_own_page_passes(headers: Mapping[str, str]) -> None:
    require_own_origin(request(headers), None)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": "https://airflow.example"},
        {"origin": "http://airflow.example.evil"},
        {"sec-fetch-site": "same-site", "origin": "http://airflow.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
    ],
)
def test_a_request_of_another_site_is_refused(headers: Mapping[str, str]) -> None:
    with pytest.raises(HTTPException):
        require_own_origin(request(headers), None)


def test_behind_a_proxy_the_configured_origin_counts() -> None:
    require_own_origin(request({"origin": "https://public.example"}), "https://public.example")
    with pytest.raises(HTTPException):
        require_own_origin(request({"origin": "http://airflow.example"}), "https://public.example")


def request(headers: Mapping[str, str]) -> Request:
    pairs = [(b"host", b"airflow.example"), *((name.encode(), value.encode()) for name, value in headers.items())]
    return Request(
        {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "server": ("airflow.example", 80),
            "path": "/",
            "query_string": b"",
            "headers": pairs,
        }
    )


@pytest.mark.parametrize("typed", ["12345", "12,345", " 12345\n"])
def test_a_number_is_accepted_as_people_write_it(typed: str) -> None:
    require_number(typed, 12_345, where="Hold 7", counted="its messages")


@pytest.mark.parametrize("typed", ["", "1234", "12.345", "123456", "12345 of them", "-12345", "12_345"])
def test_anything_else_is_refused_with_the_number(typed: str) -> None:
    with pytest.raises(HTTPException, match=r"Hold 7: nothing was changed, .* number of its messages \(12,345\)"):
        require_number(typed, 12_345, where="Hold 7", counted="its messages")
