"""Only a form of ours, of the same user and not too old, changes anything."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from starlette.requests import Request

from workorders.pages.csrf import LIFETIME, new_token, require_own_origin, require_token
from workorders.pages.problems import ForgedRequestError

KEY = b"k" * 32
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_token_of_the_user_is_accepted_until_it_is_too_old() -> None:
    token = new_token(KEY, "ada", NOW)
    require_token(KEY, "ada", token, NOW)
    require_token(KEY, "ada", token, NOW + LIFETIME - timedelta(seconds=1))
    with pytest.raises(ForgedRequestError, match="older than 12 h"):
        require_token(KEY, "ada", token, NOW + LIFETIME)


@pytest.mark.parametrize("key_and_user", [(b"x" * 32, "ada"), (KEY, "eve")])
def test_a_token_of_another_key_or_user_is_refused(key_and_user: tuple[bytes, str]) -> None:
    with pytest.raises(ForgedRequestError, match="of another user"):
        require_token(*key_and_user, new_token(KEY, "ada", NOW), NOW)


@pytest.mark.parametrize("text", ["", "x", "é", "A" * 4, "A" * 108, "=" * 50])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ForgedRequestError):
        require_token(KEY, "ada", text, NOW)


def test_a_token_with_another_time_is_refused() -> None:
    late = NOW + LIFETIME * 2
    token = new_token(KEY, "ada", late)
    with pytest.raises(ForgedRequestError):
        require_token(KEY, "ada", token, NOW)


def test_two_tokens_of_one_moment_share_no_long_text() -> None:
    first, second = new_token(KEY, "ada", NOW), new_token(KEY, "ada", NOW)
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
    with pytest.raises(ForgedRequestError):
        require_own_origin(request(headers), None)


def test_behind_a_proxy_the_configured_origin_counts() -> None:
    require_own_origin(request({"origin": "https://public.example"}), "https://public.example")
    with pytest.raises(ForgedRequestError):
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
