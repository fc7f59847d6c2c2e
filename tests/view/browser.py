"""A headless Chromium for tests of the map page, with its own profile and without a way to the network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selenium import webdriver

from tests.polling import poll


class Browser:
    """A browser and a few verbs for it."""

    def __init__(self, driver: webdriver.Chrome, folder: Path) -> None:
        self.driver, self._folder = driver, folder

    def show(self, page: str, anchor: str = "", size: tuple[int, int] = (1200, 800)) -> None:
        """Loads a page from the disk, as a reader would."""
        path = self._folder / "page.html"
        path.write_text(page, encoding="utf-8")
        self.driver.set_window_size(*size)
        self.driver.get("about:blank")
        self._log("performance")  # what came before is not this page's
        self.driver.get(path.as_uri() + anchor)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0]).textContent", selector))

    def wait(self, condition: Callable[[], object]) -> None:
        """Returns as soon as the condition holds; asks after every frame that the page has drawn."""

        def after_a_frame() -> object:
            self.run("return new Promise(requestAnimationFrame)")
            return condition()

        poll(after_a_frame, "the page to get there", every_s=0)

    def faults(self) -> list[str]:
        """What the page's scripts complained of."""
        # Advice on drawing is for the tests, which read pixels back; the page does not.
        return [entry["message"] for entry in self._log("browser") if entry["source"] != "rendering"]

    def requests(self) -> list[str]:
        """The addresses that the page requested and that its own policy let through."""
        messages = [json.loads(entry["message"])["message"] for entry in self._log("performance")]
        sent = {
            message["params"]["requestId"]: message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        }
        for message in messages:
            if message["method"] == "Network.loadingFailed" and message["params"].get("blockedReason") == "csp":
                sent.pop(message["params"]["requestId"], None)
        return list(sent.values())

    def _log(self, kind: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.driver.get_log(kind)  # type: ignore[no-untyped-call]
        return entries
