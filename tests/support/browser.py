# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that reads a page like a person: it waits, and knows which texts are visible."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    JavascriptException,
    StaleElementReferenceException,
    TimeoutException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

#: Seconds for something to appear on a busy machine.
PATIENCE = 60
#: Size of the visible part of a page without scrolling.
WIDTH, HEIGHT = 1400, 900


class Screen:
    """A browser that waits for its elements.

    :param pictures: folder of :meth:`picture`.
    """

    def __init__(self, driver: webdriver.Chrome, pictures: Path) -> None:
        self.driver = driver
        self.pictures = pictures

    def open(self, url: str) -> None:
        """Go to a page."""
        self.driver.get(url)

    def wait(self, condition: Callable[[webdriver.Chrome], Any], patience: float = PATIENCE) -> Any:
        """Wait until the condition is true; its elements might be drawn again, or still be covered."""
        moving = [
            ElementClickInterceptedException,
            ElementNotInteractableException,
            JavascriptException,  # the page was left while a script ran
            StaleElementReferenceException,
        ]
        try:
            return WebDriverWait(self.driver, patience, ignored_exceptions=moving).until(condition)
        except TimeoutException as error:
            error.add_note(f"{self.driver.current_url} shows:\n{self.in_sight()}")
            raise

    def all(self, selector: str) -> list[WebElement]:
        """Return the visible elements, by CSS selector, or by XPath if it starts with a slash."""
        by = By.XPATH if selector.startswith("/") else By.CSS_SELECTOR
        return [found for found in self.driver.find_elements(by, selector) if found.is_displayed()]

    def shown(self, selector: str) -> None:
        """Wait until there is such an element."""
        self.wait(lambda _: self.all(selector))

    def _do(self, selector: str, act: Callable[[WebElement], Any]) -> None:
        """Wait until there is such an element and the action on the first of them succeeds."""
        self.wait(lambda _: any(act(found) for found in self.all(selector)[:1]))

    def click(self, selector: str) -> None:
        def clicked(found: WebElement) -> bool:
            if found.is_enabled():
                found.click()
                return True
            return False

        self._do(selector, clicked)

    def type(self, selector: str, text: str) -> None:
        """Replace the content of a field at once, like pasting: forms lose some of fast single keys."""

        def typed(field: WebElement) -> bool:
            field.send_keys(Keys.CONTROL + "a")
            self.driver.execute_cdp_cmd("Input.insertText", {"text": text})
            return field.get_attribute("value") == text

        self._do(selector, typed)

    def press(self, selector: str, *keys: str) -> None:
        self._do(selector, lambda found: found.send_keys(*keys) is None)  # type: ignore[func-returns-value]

    def read(self, selector: str, attribute: str) -> str:
        """Return an attribute once the element is there and has it."""
        value: str = self.wait(lambda _: next((e.get_attribute(attribute) for e in self.all(selector)), None))
        return value

    def to(self, selector: str) -> None:
        """Scroll to the first such element, like a person who searches for it."""
        self.shown(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.all(selector)[0])

    def gone(self, selector: str) -> None:
        self.wait(lambda _: not self.all(selector))

    def in_sight(self) -> str:
        """Return the readable words: within the window, neither cut off nor covered."""
        seen: str = self.driver.execute_script(IN_SIGHT)
        return seen

    def sees(self, *texts: str) -> None:
        """Wait until all these texts are readable, in any line breaks.

        The page itself checks repeatedly: otherwise, a notice that disappears after five seconds is missed when the
        machine is busy.

        :raises AssertionError: with the readable words, if a text is missing.
        """
        wanted = ["".join(text.split()) for text in texts]
        self.driver.set_script_timeout(PATIENCE)
        try:
            self.wait(lambda driver: driver.execute_async_script(ALL_IN_SIGHT, wanted))
        except TimeoutException:
            seen = self.in_sight()
            missing = [text for text, bare in zip(texts, wanted, strict=True) if bare not in "".join(seen.split())]
            raise AssertionError(f"not in sight: {missing}\nin sight: {seen}") from None

    @contextmanager
    def phone(self) -> Iterator[None]:
        """Show the page on a phone, which is high enough for all of it."""
        size = {"width": 390, "height": 3000, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def picture(self, name: str) -> None:
        """Save the visible page and its words once nothing moves (except for cursors and spinners)."""
        self.wait(lambda driver: driver.execute_script(STILL))
        self.driver.save_screenshot(str(self.pictures / f"{name}.png"))
        (self.pictures / f"{name}.txt").write_text(f"{self.in_sight()}\n", encoding="utf-8")


STILL = "return document.getAnimations().every(a => a.playState != 'running' || a.effect.getTiming().iterations > 1)"
#: By words, because a line might be cut at the edge of its box.
IN_SIGHT = r"""
const words = [];
const range = document.createRange();
function see(element, box) {
  if (!box.width || box.left < 0 || box.right > innerWidth || box.top < 0 || box.bottom > innerHeight) return false;
  const top = element.getRootNode().elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  return top && (element.contains(top) ||
    top.contains(element) && getComputedStyle(element).pointerEvents == 'none');
}
function read(node) {
  if (node.nodeType == Node.TEXT_NODE)
    for (const word of node.data.matchAll(/\S+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (see(node.parentElement, range.getBoundingClientRect())) words.push(word[0]);
    }
  else {
    if (node.matches?.('input:not([type=password]), textarea') && see(node, node.getBoundingClientRect()))
      words.push(node.value || node.placeholder);
    for (const child of (node.shadowRoot || node).childNodes) read(child);
  }
}
read(document.body);
return words.join(' ');
"""
ALL_IN_SIGHT = f"""
const [wanted, done] = arguments;
const inSight = () => {{ {IN_SIGHT} }};
(function look() {{
  const seen = inSight().replace(/\\s/g, '');
  wanted.every(text => seen.includes(text)) ? done(true) : setTimeout(look, 100);
}})();
"""


@contextmanager
def browser(chromium: str, chromedriver: str, profile: Path, pictures: Path) -> Iterator[Screen]:
    """Start a Chromium whose page is :data:`WIDTH` x :data:`HEIGHT`.

    :param profile: an empty folder.
    :param pictures: folder of its pictures; made if it is missing.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # As root, as in CI, Chromium's own sandbox does not work. The other options keep it from sending requests.
    for argument in (
        "headless=new",
        "no-sandbox",
        "disable-gpu",
        "disable-dev-shm-usage",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "force-prefers-reduced-motion",
        f"user-data-dir={profile}",
    ):
        options.add_argument(f"--{argument}")
    driver = webdriver.Chrome(options=options, service=Service(chromedriver, env={**os.environ, "TZ": "UTC"}))
    try:
        # The size of a window includes its frame.
        frame = driver.execute_script("return [outerWidth - innerWidth, outerHeight - innerHeight]")
        driver.set_window_size(WIDTH + frame[0], HEIGHT + frame[1])
        pictures.mkdir(parents=True, exist_ok=True)
        yield Screen(driver, pictures)
    finally:
        driver.quit()
