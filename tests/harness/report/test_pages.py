"""index.html and summary.md: all that was found is there, in one file, and what comes from tests is text."""

import base64
import hashlib
import html.parser
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.harness.report import preload
from tests.harness.report.examples import GPU, hostile, run_of, whole_report
from tilecheck.report.model import Report
from tilecheck.report.summary import summary


def page_of(report: Report) -> str:
    preload.needed()
    from tilecheck.report.page import page

    return page(report)


class Tags(html.parser.HTMLParser):
    """What a page is made of."""

    VOID = ("meta", "link", "br", "img", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert self._open == [], "a tag is left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def page() -> str:
    """The page of the fixture `report`."""
    return page_of(whole_report())


def test_page_is_one_file_that_loads_nothing(page: str) -> None:
    tags = Tags(page)
    assert tags.of("img") == []
    assert [attrs.get("src") for attrs in tags.of("script")] == [None]
    assert [attrs["href"] for attrs in tags.of("link")] == ["data:,"]
    loaded = [a["href"] for a in tags.of("a") if not (a["href"] or "").startswith("#")]
    assert loaded == ["results.json", "summary.md"]
    assert not re.search(r"url\((?!#)|@import", page)


def test_links_lead_to_what_is_there_and_ids_are_unique(page: str) -> None:
    tags = Tags(page)
    ids = [attrs["id"] for _, attrs in tags.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    wanted = [a["href"] or "" for a in tags.of("a")] + [a["xlink:href"] or "" for a in tags.of("use")]
    anchors = [href.removeprefix("#") for href in wanted if href.startswith("#")]
    assert len(anchors) > 50
    assert set(anchors) <= set(ids)


def test_page_has_all_that_was_found(page: str) -> None:
    text = " ".join(Tags(page).text)
    for words in (
        "1 of 37 tests failed",
        "error 0.25 is 900 times the bound",
        'pytest "tests/test_correctness.py::test_output[softmax-sof-tails-bf16]" --device=simulator --seed=0',
        "inf",
        "slower",
        "+4.3 %",
        "spill stores 0 -> 8, registers 168 -> 255",
        "HGMMA 8",
        "m128-n256",
        f"History on {GPU}",
        "900 TFLOP/s",
        "4.5 TB/s",
        "needs a GPU: none",
        "24 tried",
    ):
        assert words in text, words
    for name in ("vector_add", "matmul", "softmax"):
        assert f'<h2 class="id">{name}</h2>' in page
    assert page.count("<svg") == 6, "numerics of three kernels, and latency, roofline and history of one"


def test_what_comes_from_tests_and_files_is_text_in_the_page(page: str, report: Report) -> None:
    before, tags = Tags(page), Tags(page_of(hostile(report)))
    assert len(tags.of("script")) == 1
    assert tags.of("img") == []
    assert {name for name, _ in tags.tags} == {name for name, _ in before.tags}
    assert not [attrs for _, attrs in tags.tags if any(name.startswith("on") for name in attrs)]
    assert "".join(tags.text).count("{{7*7}}") > 20
    assert not [a for a in tags.of("a") if "javascript" in (a["href"] or "")]


def test_page_allows_its_own_script_and_no_other(page: str) -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (policy,) = [
        attrs["content"]
        for attrs in Tags(page).of("meta")
        if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy.replace("&#39;", "'")
    assert policy.startswith("default-src 'none'")


@pytest.mark.parametrize(
    "changes",
    [
        {"tests": (), "numerics": (), "code": (), "latency": (), "history": (), "kernels": ()},
        {"latency": (), "history": ()},
        {"numerics": (), "code": ()},
        {"runs": (run_of(ended="refused: no GPU", device="", sections=(), exit=4),), "tests": ()},
    ],
)
def test_report_of_a_part(report: Report, changes: dict[str, Any]) -> None:
    some = replace(report, **changes)
    Tags(page_of(some))
    assert summary(some).startswith("## ")


@pytest.mark.parametrize(("stored", "command"), [(True, "--benchmark-compare"), (False, "-m latency")])
def test_the_command_that_times_is_one_that_is_not_refused(
    report: Report, stored: bool, command: str
) -> None:
    page = page_of(replace(report, latency=(), history=report.history if stored else ()))
    named = set(re.findall(r"times want a GPU: <code>pytest ([^<]+)</code>", page))
    assert command in named
    assert stored or named == {command}


def test_wrong_cases_are_beyond_the_bound_in_the_plot(page: str) -> None:
    assert "softmax-sof-tails-bf16: inf" in page


# summary.md


def table_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


def test_summary_has_sections_kernels_and_failures(report: Report) -> None:
    text = summary(report)
    assert text.splitlines()[0] == "## ❌ tilecheck: 1 of 37 tests failed"
    assert "| ❌ | correctness | 1 failed, 35 passed | 3.0 s |" in text
    assert "| ❌ | softmax | 1 failed, 11 passed | inf | softmax-sof-tails-bf16 |  |" in text
    assert "4 same, 2 slower, 2 faster, 2 inconclusive" in text
    assert "error 0.25 is 900 times the bound" in text


def test_what_comes_from_tests_is_text_in_the_summary(report: Report) -> None:
    text = summary(hostile(report))
    without_code = re.sub(r"^(`{3,})\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"<(?!/?(?:details|summary|code)>)", without_code) == []
    assert without_code.count("<details>") == without_code.count("</details>") == 2
    markdown = re.sub(r"^<details>.*", "", without_code, flags=re.MULTILINE)
    assert "javascript" in markdown
    assert "](" not in markdown
    assert {line.replace("\\|", "").count("|") for line in table_lines(markdown)} == {5, 7}


def test_fence_is_longer_than_any_in_the_message(report: Report) -> None:
    message = "````\n</details>\n# not a heading\n````"
    bad = replace(report.tests[0], outcome="failed", message=message)
    text = summary(replace(report, tests=(bad,)))
    assert "\n`````\n````\n</details>\n# not a heading\n````\n`````\n" in text


def test_many_failures_stay_within_what_github_takes() -> None:
    report = whole_report()
    bad = replace(report.tests[0], outcome="failed", message="line of a message\n" * 5000)
    tests = tuple(replace(bad, id=f"{bad.id}{i}") for i in range(3000))
    text = summary(replace(report, tests=tests))
    assert len(text.encode()) < 2**20
    assert "2980 failures more" in text
