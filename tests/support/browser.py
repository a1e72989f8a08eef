"""A real browser, for what people see."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FloatRect, Page, expect, sync_playwright

from local_stack.stack import CHECKOUT

PICTURES = Path(os.environ.get("WORKORDERS_PICTURES", CHECKOUT / "build" / "pictures"))
"""Where pictures go; set the variable to `docs/images` to replace those that the pages show."""
_TIMEOUT_MILLISECONDS = 60_000
# Chromium's own services look for hosts that tests must not ask; and as root it needs to run without its sandbox.
_ARGUMENTS = [
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start Chromium; skip the test where it is not installed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def browser_page(browser: Browser | None = None, *, width: int = 1440, height: int = 900) -> Iterator[Page]:
    """Open an empty page with its own cookies and storage.

    Args:
        browser: one that runs; without, one is started for the page.
        width: of the window, in CSS pixels.
        height: of the window, in CSS pixels.
    """
    with nullcontext(browser) if browser else running_browser() as running:
        page = running.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(_TIMEOUT_MILLISECONDS)
        expect.set_options(timeout=_TIMEOUT_MILLISECONDS)
        yield page
        page.close()


def take_picture(page: Page, name: str, *, height: int) -> None:
    """Keep the upper part of what the page shows, `height` CSS pixels of it, as `name`.png."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size
    assert size is not None
    clip: FloatRect = {"x": 0, "y": 0, "width": size["width"], "height": height}
    page.screenshot(path=PICTURES / f"{name}.png", clip=clip)
