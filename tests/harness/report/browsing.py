"""Pages in a browser: Debian's Chromium without a window, driven by selenium."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.report import preload

WIDE, NARROW = (1200, 900), (390, 844)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    preload.needed()
    webdriver: Any = pytest.importorskip("selenium.webdriver")
    chromium, driver_of_it = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver_of_it):
        pytest.skip("no Chromium: apt-get install -y --no-install-recommends chromium chromium-driver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which Chromium refuses to root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_of_it))
    yield driver
    driver.quit()


class Page:
    def __init__(self, browser: Any, path: Path, size: tuple[int, int] = WIDE, dark: bool = False) -> None:
        self._browser = browser
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        browser.get("about:blank")
        browser.get(path.as_uri())

    def js(self, script: str, *arguments: Any) -> Any:
        return self._browser.execute_script(f"return {script}", *arguments)

    def click(self, selector: str) -> None:
        found = self._browser.find_element("css selector", selector)
        self.js("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def head(self, table: str, column: str) -> str:
        """A selector of the button that sorts a table by a column."""
        heads = self.js(
            "[...document.querySelectorAll(`table[data-sort='${arguments[0]}'] th`)].map(h => h.textContent)",
            table,
        )
        return f"table[data-sort='{table}'] th:nth-child({heads.index(column) + 1}) button"

    def column(self, table: str, number: int) -> list[str]:
        """The texts of a column, of the rows that are shown."""
        found: list[str] = self.js(
            "[...document.querySelectorAll(`table[data-sort='${arguments[0]}'] tbody tr:not([hidden])`)]"
            ".map(row => row.cells[arguments[1]].textContent.trim())",
            table,
            number,
        )
        return found

    def filter(self, table: str, text: str) -> str:
        """Types into the filter of a table; what is said beside it."""
        from selenium.webdriver.common.keys import Keys

        field = self._browser.find_element("css selector", f"input[aria-label='Filter {table}']")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.BACKSPACE, text)
        said: str = self.js("arguments[0].nextElementSibling.textContent", field)
        return said

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self._browser.get_log("browser")]


READ = ("body", ".muted", "td .id", "figcaption", "thead th", ".state", "svg text", "h1")
"""Of each page, what has to be readable."""

SIZES = pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
SCHEMES = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


def contrast(page: Page, selector: str) -> float:
    """The ratio of luminances, as WCAG 2 has it, of a text and what is behind it."""
    colors = page.js(
        "(() => { const e = document.querySelector(arguments[0]); const style = getComputedStyle(e);"
        "let b = e; while (b.parentElement && getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)')"
        "b = b.parentElement;"
        "const color = e instanceof SVGElement ? style.fill : style.color;"
        "return [color, getComputedStyle(b).backgroundColor]; })()",
        selector,
    )
    light, dark = sorted(map(luminance, colors), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    channels = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
