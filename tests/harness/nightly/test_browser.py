"""The page of the nights in a browser."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness.nightly.nights import history, hostile, nights
from tests.harness.report.browsing import NARROW, READ, SCHEMES, SIZES, WIDE, Page, contrast
from tests.harness.report.examples import HOSTILE, whole_report
from tilecheck.nightly.trendfile import read_history, write_trend
from tilecheck.report import folder


@pytest.fixture(scope="module")
def trend(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 30 nights, beside a report."""
    past = read_history(history(tmp_path_factory.mktemp("history"), nights(30)))
    out = tmp_path_factory.mktemp("trend")
    folder.write(whole_report(), out)
    write_trend(past, out, "example")
    return out / "trend.html"


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
    kept = [hostile(night, HOSTILE) for night in nights(2)]
    write_trend(read_history(history(tmp_path / "h", [*nights(30), *kept])), tmp_path, HOSTILE)
    page = Page(browser, tmp_path / "trend.html")
    assert page.js("document.querySelector('.mark').textContent.includes('<script>alert(1)</script>')")
    assert page.js("document.querySelectorAll('img').length") == 0
    assert page.errors() == [], "a script or a picture was refused"


@SIZES
@SCHEMES
def test_fits_and_is_readable(browser: Any, trend: Path, size: tuple[int, int], dark: bool) -> None:
    page = Page(browser, trend, size, dark)
    assert page.js("document.documentElement.scrollWidth") <= size[0], "the page scrolls sideways"
    for selector in (*READ, ".told li", ".legend", ".was", "td .bad"):
        assert contrast(page, selector) > 4.5, selector
    assert page.errors() == []
