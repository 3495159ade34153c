"""The page in a browser: Debian's Chromium without a window, driven by selenium."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.report import preload
from tests.harness.report.examples import HOSTILE, hostile, whole_report
from tests.harness.report.nights import history, nights
from tests.harness.report.nights import hostile as hostile_night

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


@pytest.fixture(scope="module")
def trend(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 30 nights, beside a report."""
    from tilecheck.report import folder

    past = folder.read_history(history(tmp_path_factory.mktemp("history"), nights(30)))
    out = tmp_path_factory.mktemp("trend")
    folder.write(whole_report(), out, trend=True)
    folder.write_trend(past, out, "example")
    return out / "trend.html"


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


def test_pages_of_report_and_nights_lead_to_each_other(browser: Any, trend: Path) -> None:
    page = Page(browser, trend.with_name("index.html"))
    page.click("nav a[href='trend.html']")
    assert page.js("document.querySelector('h1').textContent") == "Green for 5 nights, 1 row drifts"
    links = page.js("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert links[0] == "index.html" and len(links) == 6
    for link in links[1:]:
        page.click(f"nav a[href='{link}']")
        assert page.js("location.hash") == link
    page.click("nav a[href='index.html']")
    assert page.js("document.querySelector('h1').textContent") == "1 of 37 tests failed"
    assert page.errors() == []


def test_nights_sort_and_filter(browser: Any, trend: Path) -> None:
    page = Page(browser, trend)
    table = "nights on Example GPU"
    assert page.column(table, 0)[0] == "2026-01-30 02:17"
    page.click(page.head(table, "night"))
    assert page.column(table, 0)[0] == "2026-01-01 02:17"
    page.click(page.head(table, "correctness"))
    *times, refused = [text.removeprefix("failed ") for text in page.column(table, 6)]
    assert times == sorted(times) and refused == "refused", "what did not run stays below"
    assert page.filter(table, "correctness failed") == "2 of 30"
    times_of = "times on Example GPU"
    page.click(page.head(times_of, "drift"))
    assert page.column(times_of, 6)[0].endswith("% in 20"), "what is empty stays below"
    page.click(page.head(times_of, "row"))
    assert page.column(times_of, 0)[0].startswith("flash-attention-size0-bf16")
    assert page.filter(times_of, "softmax slower") == "1 of 12"
    assert page.errors() == []


def test_pictures_are_drawn_where_they_should_be(browser: Any, trend: Path) -> None:
    for size in (WIDE, NARROW):
        page = Page(browser, trend, size)
        boxes = page.js(
            "[...document.querySelectorAll('.spark, .strip')].map(s => { const r = s.getBoundingClientRect();"
            "const cell = s.closest('td').getBoundingClientRect();"
            "return [r.width, r.height, r.left - cell.left, cell.right - r.right]; })"
        )
        assert len(boxes) == 9 + 12 + 3
        for width, height, left, right in boxes:
            assert width > 60 and height > 10 and left >= 0 and right >= 0


def test_hostile_words_in_nights_do_nothing(browser: Any, tmp_path: Path) -> None:
    from tilecheck.report import folder

    kept = [hostile_night(night, HOSTILE) for night in nights(2)]
    folder.write_trend(folder.read_history(history(tmp_path / "h", [*nights(30), *kept])), tmp_path, HOSTILE)
    page = Page(browser, tmp_path / "trend.html")
    assert page.js("document.querySelector('.mark').textContent.includes('<script>alert(1)</script>')")
    assert page.js("document.querySelectorAll('img').length") == 0
    assert page.errors() == [], "a script or a picture was refused"


READ = ("body", ".muted", "td .id", "figcaption", "thead th", ".state", "pre", "svg text", "h1")
READ_OF_NIGHTS = (*(each for each in READ if each != "pre"), ".told li", ".legend", ".was", "td .bad")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("of", "read"), [("path", READ), ("trend", READ_OF_NIGHTS)], ids=["report", "nights"]
)
def test_fits_and_is_readable(
    browser: Any,
    request: pytest.FixtureRequest,
    of: str,
    read: tuple[str, ...],
    size: tuple[int, int],
    dark: bool,
) -> None:
    page = Page(browser, request.getfixturevalue(of), size, dark)
    assert page.js("document.documentElement.scrollWidth") <= size[0], "the page scrolls sideways"
    for selector in read:
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
