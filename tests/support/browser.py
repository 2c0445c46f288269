# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that looks at a page as a person does: it waits, and knows what is in sight."""

from __future__ import annotations

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
#: What a person sees at once, without scrolling.
WIDTH, HEIGHT = 1400, 900


class Screen:
    """A browser that waits for what it looks for.

    :param pictures: folder of :meth:`picture`.
    """

    def __init__(self, driver: webdriver.Chrome, pictures: Path) -> None:
        self.driver = driver
        self.pictures = pictures

    def open(self, url: str) -> None:
        """Go to a page."""
        self.driver.get(url)

    def wait(self, condition: Callable[[webdriver.Chrome], Any], patience: float = PATIENCE) -> Any:
        """Wait until the condition holds; what it looks at may be drawn anew meanwhile, or still be covered."""
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
        """Return the elements that are shown now, by CSS selector, or by XPath if it begins with a slash."""
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
        """Replace what is in a field, at one go as pasting does: of fast single keys, forms lose some."""

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
        """Scroll to the first such element, as a person does who looks for it."""
        self.shown(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.all(selector)[0])

    def gone(self, selector: str) -> None:
        self.wait(lambda _: not self.all(selector))

    def in_sight(self) -> str:
        """Return the words that can be read now: within the window, neither cut off nor covered."""
        seen: str = self.driver.execute_script(IN_SIGHT)
        return seen

    def sees(self, *texts: str) -> None:
        """Wait until all these texts can be read, however their lines are broken.

        The page itself looks again and again: a notice that goes after five seconds is otherwise missed when the
        machine is busy.

        :raises AssertionError: with what can be read, if one of them cannot.
        """
        wanted = ["".join(text.split()) for text in texts]
        self.driver.set_script_timeout(PATIENCE)
        try:
            self.wait(lambda driver: driver.execute_async_script(ALL_IN_SIGHT, wanted))
        except TimeoutException:
            seen = self.in_sight()
            missing = [text for text, bare in zip(texts, wanted, strict=True) if bare not in "".join(seen.split())]
            raise AssertionError(f"not in sight: {missing}\nin sight: {seen}") from None

    def picture(self, name: str) -> None:
        """Save what is seen once nothing moves any more (cursors and spinners apart)."""
        self.wait(lambda driver: driver.execute_script(STILL))
        self.driver.save_screenshot(str(self.pictures / f"{name}.png"))


STILL = "return document.getAnimations().every(a => a.playState != 'running' || a.effect.getTiming().iterations > 1)"
#: Word by word, as a line may be cut at the edge of the box that it is in.
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
    :param pictures: folder of its pictures; made if it is not there.
    """
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    # As root, as in CI, Chromium's own sandbox does not work. The others keep it from calling home.
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
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        # The size of a window is that of its frame, too.
        frame = driver.execute_script("return [outerWidth - innerWidth, outerHeight - innerHeight]")
        driver.set_window_size(WIDTH + frame[0], HEIGHT + frame[1])
        pictures.mkdir(parents=True, exist_ok=True)
        yield Screen(driver, pictures)
    finally:
        driver.quit()
