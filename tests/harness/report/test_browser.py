"""The page of a report in a browser."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness.report.browsing import READ, SCHEMES, SIZES, Page, contrast
from tests.harness.report.examples import hostile, whole_report
from tilecheck.report import folder


@pytest.fixture(scope="module")
def path(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report")
    folder.write(whole_report(), path)
    return path / "index.html"


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
    assert values[-1] == "inf"
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
    folder.write(hostile(whole_report()), tmp_path)
    page = Page(browser, tmp_path / "index.html")
    assert page.js("document.querySelector('h1').textContent.includes('<script>alert(1)</script>')")
    assert page.js("document.querySelectorAll('img').length") == 0
    assert page.errors() == [], "a script or a picture was refused"


@SIZES
@SCHEMES
def test_fits_and_is_readable(browser: Any, path: Path, size: tuple[int, int], dark: bool) -> None:
    page = Page(browser, path, size, dark)
    assert page.js("document.documentElement.scrollWidth") <= size[0], "the page scrolls sideways"
    for selector in (*READ, "pre"):
        assert contrast(page, selector) > 4.5, selector
    assert page.errors() == []
