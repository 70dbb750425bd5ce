"""The page in a real browser, by keyboard only. Needs Playwright, Chromium and ``DPENSEMBLE_TEST_BROWSER=1``."""

import json
import os
import shutil
import signal

import pytest

from .test_client import Forked, port  # noqa: F401 - a fixture

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(
        CHROMIUM is None or "DPENSEMBLE_TEST_BROWSER" not in os.environ,
        reason="there is no Chromium, or DPENSEMBLE_TEST_BROWSER is not set",
    ),
    pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning"),
]


def test_an_analyst_asks_by_keyboard_at_every_width(home, port):  # noqa: F811
    service, key = Forked(home, port), json.loads((home / "tokens.json").read_text())["alice"]
    service.begin()
    try:
        with playwright.sync_playwright() as started:
            browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            for width in (400, 1200, 1600):
                visit(browser, width, f"http://127.0.0.1:{port}", key)
            browser.close()
    finally:
        service.end(signal.SIGTERM)


def visit(browser, width, url, key):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme="dark")
    page, complaints = context.new_page(), []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(url)
    page.focus("#key")
    page.keyboard.type(key)
    page.keyboard.press("Enter")
    page.wait_for_selector("#grants")
    fits(page)
    page.focus("text=october")
    page.keyboard.press("Enter")
    page.wait_for_selector("#promise")
    before = page.text_content("[data-said]")
    page.focus("#answers")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("before => document.querySelector('[data-said]').textContent !== before", arg=before)
    page.focus("#field-0")
    page.keyboard.type("20")
    page.keyboard.press("Tab")
    page.keyboard.type("80")
    page.keyboard.press("Enter")
    page.wait_for_selector("#told")
    fits(page)
    assert complaints == []
    context.close()


def fits(page):
    """Check that nothing is wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
