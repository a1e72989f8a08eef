"""What browsers load: unchanged third-party code with its license, and nothing from the network."""

import hashlib
import json
import re
from importlib.resources import files

import pytest
from starlette.testclient import TestClient

from workorders.pages.app import make_app
from workorders.pages.site import Site

STATIC = files("workorders.pages").joinpath("static")
LOCK = json.loads(STATIC.joinpath("vendored.json").read_text(encoding="utf-8"))


def test_a_vendored_file_is_the_one_of_its_package() -> None:
    for package in LOCK:
        for name, digest in package["files"].items():
            assert hashlib.sha256(STATIC.joinpath(name).read_bytes()).hexdigest() == digest, name


def test_every_script_that_is_not_ours_is_listed_with_its_license() -> None:
    vendored = {name for package in LOCK for name in package["files"]}
    ours = {"pages.js", "theme.js"}
    assert {path.name for path in STATIC.iterdir() if path.name.endswith(".js")} == ours | {
        name for name in vendored if name.endswith(".js")
    }
    assert all(any(name.endswith(".LICENSE") for name in package["files"]) for package in LOCK)


def test_a_browser_keeps_a_file_and_asks_whether_it_has_changed() -> None:
    client = TestClient(make_app(Site(str, lambda _: {}, lambda _: {}, "key")))
    first = client.get("/static/pages.css")
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    again = client.get("/static/pages.css", headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert client.get("/static/../app.py").status_code == client.get("/static/%2e%2e/app.py").status_code == 404


@pytest.mark.parametrize("template", [path.name for path in files("workorders.pages").joinpath("templates").iterdir()])
def test_a_template_has_no_inline_script_or_style_and_asks_no_other_host(template: str) -> None:
    text = files("workorders.pages").joinpath("templates", template).read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|javascript:|\|\s*safe\b|autoescape false", text)
    assert not re.search(r"<script(?![^>]*\ssrc=)", text)
    assert not re.search(r"(src|href|action)=\"(https?:)?//", text)


def test_the_styles_load_nothing() -> None:
    assert not re.search(rb"@import|url\(", STATIC.joinpath("pages.css").read_bytes())
