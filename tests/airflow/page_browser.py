"""A browser on the Relaybox page inside Airflow's UI: what an operator sees and clicks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import FrameLocator, Locator, Page, expect, sync_playwright

from tests.airflow.conftest import REPOSITORY
from tests.support.chromium import find_chromium, launch_arguments
from tests.support.patience import patience
from tests.support.world import wait_until

PATIENCE_MILLISECONDS = 60_000


@dataclass(frozen=True)
class PageBrowser:
    """One tab of Airflow's UI. `pictures` is where screenshots go."""

    tab: Page
    url: str
    pictures: Path

    @property
    def frame(self) -> FrameLocator:
        """The Relaybox page in Airflow's frame."""
        return self.tab.frame_locator("iframe")

    def open(self, path: str) -> None:
        """Opens an address of Airflow's UI, or a page of Relaybox in its frame."""
        self.tab.goto(f"{self.url}{path}")

    def go(self, link: str) -> None:
        """Clicks a link of the page's head."""
        self.frame.locator("header nav").get_by_text(link, exact=True).click()

    def see(self, selector: str, words: str) -> Locator:
        """Waits until there is an element with these words, and it shows."""
        found = self.frame.locator(selector).filter(has_text=words).first
        found.wait_for(timeout=patience(PATIENCE_MILLISECONDS))
        return found

    def find(self, selector: str) -> None:
        """Waits until there is such an element, may it be folded away: a page's head shows before its end is read."""
        expect(self.frame.locator(selector).first).to_be_attached(timeout=patience(PATIENCE_MILLISECONDS))

    def count(self, selector: str, count: int) -> None:
        """Waits until there is exactly this number of these elements."""
        expect(self.frame.locator(selector)).to_have_count(count, timeout=patience(PATIENCE_MILLISECONDS))

    def press(self, words: str) -> None:
        self.frame.get_by_role("button", name=words, exact=True).first.click(timeout=patience(PATIENCE_MILLISECONDS))

    def fill(self, field: str, words: str) -> None:
        """Writes into a field of a form on the page."""
        self.frame.locator(f"[name={field}]").fill(words, timeout=patience(PATIENCE_MILLISECONDS))

    def picture(self, name: str) -> None:
        """A screenshot of the whole tab, once the frame is painted: an empty one is much smaller."""
        path = self.pictures / name

        def shows_something() -> bool:
            self.tab.screenshot(path=path)
            return path.stat().st_size > 30_000

        wait_until(shows_something, f"{name} shows something")


@contextmanager
def page_browser(url: str, directory: Path, *, dark: bool = False) -> Iterator[PageBrowser]:
    """A Chromium that sees Airflow in one theme. UPDATE_SCREENSHOTS=1 has its pictures written to docs/images."""
    pictures = REPOSITORY / "docs" / "images" if os.environ.get("UPDATE_SCREENSHOTS") == "1" else directory
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=launch_arguments())
        scheme = "dark" if dark else "light"
        tab = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)
        tab.add_init_script(f"localStorage.setItem('theme', '{scheme}')")
        wrong: list[str] = []
        tab.on("console", lambda message: wrong.append(message.text) if "Content Security Policy" in message.text else None)
        tab.on("pageerror", lambda error: wrong.append(str(error)) if "/relaybox/" in str(error.stack) else None)
        yield PageBrowser(tab, url, pictures)
        browser.close()
    assert wrong == []
