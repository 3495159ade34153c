"""The page in a browser: Debian's Chromium without a window, driven by selenium."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.report import preload
from tests.harness.report.examples import hostile, whole_report

preload.needed()
webdriver: Any = pytest.importorskip("selenium.webdriver")

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip(
        "no Chromium: apt-get install -y --no-install-recommends chromium chromium-driver",
        allow_module_level=True,
    )

WIDE, NARROW = (1200, 900), (390, 844)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
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
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tilecheck.report import folder

    path = tmp_path_factory.mktemp("report")
    folder.write(whole_report(), path)
    return path / "index.html"


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


def test_opens_from_disk_without_a_complaint(browser: Any, path: Path) -> None:
    page = Page(browser, path)
    assert page.js("document.title") == "example: 1 of 37 tests failed"
    assert page.js("document.querySelector('h1').textContent") == "1 of 37 tests failed"
    assert page.errors() == []


def test_all_links_lead_somewhere(browser: Any, path: Path) -> None:
    page = Page(browser, path)
    for link in page.js("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))"):
        page.click(f"nav a[href='{link}']")
        assert page.js("location.hash") == link
        bar = page.js("document.querySelector('nav').getBoundingClientRect().bottom")
        top = page.js("document.querySelector(arguments[0]).getBoundingClientRect().top", link)
        below = page.js("document.documentElement.scrollHeight - innerHeight - scrollY")
        assert top >= bar - 1, f"{link} lies under the bar"
        assert top < 200 or below < 2, f"{link} is not at the top"
    assert page.errors() == []


def test_tables_sort_by_number_and_by_name(browser: Any, path: Path) -> None:
    page = Page(browser, path)
    table = "cases of softmax"
    budget = page.head(table, "budget used")
    page.click(budget)
    values = page.column(table, 2)
    assert values[-1] == "no result", "infinite"
    numbers = [float(value.lstrip("~")) for value in values[:-1]]
    assert numbers == sorted(numbers)
    page.click(budget)
    assert page.column(table, 2) == values[::-1]
    assert page.js("document.querySelector(arguments[0]).parentElement.ariaSort", budget) == "descending"
    page.click(page.head(table, "case"))
    names = page.column(table, 0)
    assert names == sorted(names)
    times = "times of matmul"
    page.click(page.head(times, "median"))
    assert page.column(times, 1)[0] == "53.33 us"
    assert page.column(times, 1)[-1].endswith(" s")


def test_what_is_empty_stays_below_when_sorted(browser: Any, path: Path) -> None:
    page = Page(browser, path)
    head = page.head("kernels", "rows timed")
    for _ in range(2):
        page.click(head)
        assert page.column("kernels", 6) == ["10", "", ""]


def test_tables_filter_by_all_words(browser: Any, path: Path) -> None:
    page = Page(browser, path)
    table = "times of matmul"
    assert page.filter(table, "fp16 same") == "2 of 10"
    assert page.column(table, 8) == ["same", "same"]
    assert page.filter(table, "") == ""
    assert len(page.column(table, 0)) == 10


def test_command_is_copied_or_selected(browser: Any, path: Path) -> None:
    page = Page(browser, path)
    page.click(".repeat button")
    command = (
        'pytest "tests/test_correctness.py::test_output[softmax-sof-tails-bf16]" --device=simulator --seed=0'
    )
    said = browser.execute_async_script(
        "const done = arguments[0];"
        "setTimeout(() => done(document.querySelector('.repeat button').textContent), 300)"
    )
    assert said in ("Copied", "Selected")
    assert page.js("document.querySelector('.repeat code').textContent") == command


def test_hostile_words_do_nothing(browser: Any, tmp_path: Path) -> None:
    from tilecheck.report import folder

    folder.write(hostile(whole_report()), tmp_path)
    page = Page(browser, tmp_path / "index.html")
    assert page.js("document.querySelector('h1').textContent.includes('<script>alert(1)</script>')")
    assert page.js("document.querySelectorAll('img').length") == 0
    assert page.errors() == [], "a script or a picture was refused"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_fits_and_is_readable(browser: Any, path: Path, size: tuple[int, int], dark: bool) -> None:
    page = Page(browser, path, size, dark)
    assert page.js("document.documentElement.scrollWidth") <= size[0], "the page scrolls sideways"
    for selector in ("body", ".muted", "td .id", "figcaption", "thead th", ".state", "pre", "svg text", "h1"):
        assert contrast(page, selector) > 4.5, selector
    assert page.errors() == []


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
