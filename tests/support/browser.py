"""A real browser, for what people see."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import FloatRect, FrameLocator, Page, expect, sync_playwright

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
def browser_page(*, width: int = 1440, height: int = 900) -> Iterator[Page]:
    """Open an empty page in Chromium; skip the test where Chromium is not installed.

    Args:
        width: of the window, in CSS pixels.
        height: of the window, in CSS pixels.
    """
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.set_default_timeout(_TIMEOUT_MILLISECONDS)
        expect.set_options(timeout=_TIMEOUT_MILLISECONDS)
        yield page
        browser.close()


def take_picture(page: Page, name: str, *, height: int) -> None:
    """Keep the upper part of what the page shows, `height` CSS pixels of it, as `name`.png."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size
    assert size is not None
    clip: FloatRect = {"x": 0, "y": 0, "width": size["width"], "height": height}
    page.screenshot(path=PICTURES / f"{name}.png", clip=clip)


def cancel_all(search: Page | FrameLocator, count: int) -> None:
    """Select all work orders that a search of the pages has found, cancel them, and see the job finish.

    Args:
        search: shows the first 50 of them.
        count: how many there are.
    """
    search.get_by_label("Select all of this page").check()
    expect(search.get_by_text("50 selected")).to_be_visible()
    search.get_by_role("link", name="Cancel all…").click()
    expect(search.get_by_role("heading", name=f"Cancel {count} work orders")).to_be_visible()
    search.get_by_label("Reason").fill("sent by mistake")
    search.get_by_role("button", name=f"Cancel {count}").click()
    expect(search.get_by_text(f"{count} of {count} done.")).to_be_visible()
    expect(search.locator(".lead .pill")).to_have_text("finished")
