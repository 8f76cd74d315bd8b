"""A headless Chromium for the tests of the admin page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.shadowroot import ShadowRoot
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1360,1000",
)
PATIENCE_SECONDS = 30
NEEDS_BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or CHROMEDRIVER is None, reason="no chromium or no chromedriver on the PATH"
    ),
]

T = TypeVar("T")


@contextmanager
def chromium(profile: Path, *more_flags: str) -> Iterator[webdriver.Chrome]:
    """A browser with a fresh profile; it ends with the block."""
    options = Options()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, *more_flags, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(CHROMEDRIVER)))
    try:
        yield driver
    finally:
        driver.quit()


class Page:
    """What a person does on the page: look, click, type, wait."""

    def __init__(self, driver: webdriver.Chrome, base: str) -> None:
        self.driver = driver
        self.base = base.rstrip("/")

    def open(self, path: str) -> None:
        self.driver.get(self.base + path)

    def one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        return str(
            self.driver.execute_script(
                "const found = [...document.querySelectorAll(arguments[0])];"
                "return found.map((node) => node.innerText).join('\\n')",
                css,
            )
        )

    def click(self, css: str) -> None:
        """Click an element."""
        self.press(lambda: self.one(css), css)

    def press(self, find: Callable[[], WebElement], hint: str) -> None:
        """Click what ``find`` gives, and gives again where the page makes it anew in this moment."""

        def pressed() -> bool:
            find().click()
            return True

        self.until(pressed, f"{hint} stays long enough to be clicked")

    def confirm(self, css: str) -> None:
        """Do a step that cannot be undone: open its menu, if it stands in one, choose it, and confirm it."""
        closed = "return document.querySelector(arguments[0])?.closest('[popover]:not(:popover-open)')?.id"
        if menu := self.driver.execute_script(closed, css):
            self.click(f'[popovertarget="{menu}"]')
        self.click(css)
        self.click("dialog[open] [data-confirm]")

    def write(self, css: str, text: str) -> None:
        field = self.one(css)
        if field.find_elements(By.XPATH, "parent::*[contains(@class, 'editor')]"):
            self.edit(css, text)
            return
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text or Keys.DELETE)

    def editor(self, css: str) -> ShadowRoot:
        """What stands in the place of the textarea of an editor, as soon as it does."""
        if self.one(css).is_displayed():
            self.driver.execute_script("arguments[0].focus()", self.one(css))
        self.until(lambda: not self.one(css).is_displayed(), f"CodeMirror for {css}")
        code = self.one(css).find_element(By.XPATH, "preceding-sibling::*[contains(@class, 'code')]")
        return code.shadow_root

    def edit(self, css: str, text: str) -> None:
        """Replace the text of an editor as a paste does: nothing is completed or closed."""
        content = self.editor(css).find_element(By.CSS_SELECTOR, ".cm-content")
        content.click()
        content.send_keys(Keys.CONTROL, "a")
        if not text:
            content.send_keys(Keys.DELETE)
            return
        self.driver.execute_script(
            "const clipboardData = new DataTransfer();"
            "clipboardData.setData('text/plain', arguments[1]);"
            "arguments[0].dispatchEvent("
            "new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true}))",
            content,
            text,
        )

    def marked(self, css: str, part: str) -> list[str]:
        """The texts of the parts of an editor that have a class of CodeMirror."""
        return [each.text for each in self.editor(css).find_elements(By.CSS_SELECTOR, part)]

    def until(self, what: Callable[[], T], hint: str) -> T:
        """Wait until ``what`` gives something true; what it looks at may be made anew meanwhile."""

        def look(_driver: Any) -> T:
            return what()

        waiting = WebDriverWait(
            self.driver,
            PATIENCE_SECONDS,
            poll_frequency=0.03,
            ignored_exceptions=[StaleElementReferenceException],
        )
        found: T = waiting.until(look, f"{hint}; the page shows: {self.text('main')[:2000]}")
        return found

    def until_text(self, css: str, part: str) -> str:
        """Wait until the elements show ``part``."""
        self.until(lambda: part in self.text(css), f"no {part!r} in {css}")
        return self.text(css)

    def complaints(self) -> list[str]:
        """What the browser's console holds against the page; refused requests are the tests' own."""
        return [
            entry["message"]
            for entry in self.driver.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING") and "Failed to load resource" not in entry["message"]
        ]
