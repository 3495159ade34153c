"""The page of all nights: what it shows of them, also where there are none, many, or broken ones."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.nightly.nights import GPU, history, hostile, nights
from tests.harness.report import preload
from tests.harness.report.examples import HOSTILE, whole_report
from tests.harness.report.test_pages import Tags
from tilecheck.cli import main
from tilecheck.nightly.history import Past
from tilecheck.nightly.night import Checked, Night, Time, Upgraded
from tilecheck.nightly.trend import MOST, Trend, trend
from tilecheck.nightly.trendfile import write_trend
from tilecheck.nightly.trendpage import trend_page
from tilecheck.report import folder


def trend_of(found: Sequence[Night], told: Sequence[str] = ()) -> Trend:
    return trend(GPU, Past(tuple(found), tuple(told)))


def page_of_nights(*pasts: Past, beside: bool = False) -> str:
    preload.needed()
    names = [GPU, *(f"Other GPU {n}" for n in range(len(pasts)))]
    return trend_page(dict(zip(names, pasts, strict=False)), "example", beside)[0]


@pytest.fixture(scope="module")
def month() -> list[Night]:
    return nights(30)


@pytest.fixture(scope="module")
def page(month: list[Night]) -> str:
    return page_of_nights(Past(tuple(month), ()), beside=True)


def simple(day: int, exit_code: int = 0, **given: Any) -> Night:
    return Night(f"2026-01-{day:02}T02:17:00+00:00", GPU, day, exit_code, **given)


# What is made of the nights


@pytest.mark.parametrize(
    ("codes", "state", "words"),
    [
        ([], "not run", "No night on record"),
        ([0], "passed", "Green"),
        ([13, 0, 0], "passed", "Green for 2 nights"),
        ([0, 13], "failed", "Red: correctness failed"),
        ([0, 10, 33], "failed", "Red for 2 nights: correctness hung"),
        ([0, 130], "incomplete", "Interrupted"),
        ([13, 13, 130], "incomplete", "Interrupted"),
        ([130, 130], "incomplete", "Interrupted for 2 nights"),
        ([130, 130, 13], "failed", "Red: correctness failed"),
    ],
)
def test_whole_history_in_one_line(codes: list[int], state: str, words: str) -> None:
    found = trend_of([simple(day, code) for day, code in enumerate(codes, 1)])
    assert (found.state, found.words) == (state, words)


def test_nights_are_the_newest_first_with_what_is_new(month: list[Night]) -> None:
    found = trend_of(month)
    assert [view.night for view in found.nights] == month[::-1]
    assert found.nights[-1].new == frozenset(), "nothing is known of the night before"
    (stepped,) = [view for view in found.nights if "driver" in view.new]
    assert stepped.driver == "580.95" and found.nights[0].tilelang == "0.1.15"
    assert found.nights[0].seconds == pytest.approx(sum(month[-1].seconds.values()))
    assert trend_of([simple(1)]).nights[0].seconds is None


def test_stages_in_order_with_their_bad_nights(month: list[Night]) -> None:
    stages = {stage.name: stage for stage in trend_of(month).stages}
    assert list(stages)[:3] == ["guard", "doctor", "latency"] and list(stages)[-1] == "report"
    assert stages["correctness"].bad == 2 and stages["correctness"].last_bad == month[-6].date
    assert set(stages["correctness"].bars) == {"passed", "failed", "not run"}
    assert stages["doctor"].bad == 0, "a night that the guard refused says nothing of it"
    assert stages["report"].seconds == month[-1].seconds["report"]
    assert stages["guard"].usual is not None and stages["guard"].usual < 20


def test_drifting_row_comes_first_and_says_whose_it_is(month: list[Night]) -> None:
    found = trend_of(month)
    first, *others = found.rows
    assert first.row == "softmax-size2-fp16" and first.drift is not None
    assert first.drift.total == pytest.approx(0.04, abs=0.01)
    assert first.drift_line.endswith("it is the kernel")
    assert [row.drift for row in others] == [None] * 11
    assert first.picture.drift and not others[0].picture.drift
    assert found.words == "Green for 5 nights, 1 row drifts" and found.state == "incomplete"
    assert [row.row for row in found.drifting] == [first.row]


def test_drift_is_that_of_the_last_night_with_times(month: list[Night]) -> None:
    found = trend_of([*month, replace(month[-1], date="2026-02-01T00:00:00+00:00", times={})])
    assert [row.row for row in found.drifting] == ["softmax-size2-fp16"]
    assert found.rows[0].date == month[-1].date


def test_rows_as_they_were_last_taken() -> None:
    def timed(day: int, median: float, method: str = "events", **given: Any) -> Night:
        return simple(day, times={"softmax-one": Time(median, method, kernel="softmax", **given)})

    found = trend_of(
        [timed(1, 9.0, "graph"), timed(2, 1.0), timed(3, 1.2), timed(4, 1.1, old=1.0, band=0.02)]
    )
    (row,) = found.rows
    assert row.nights == 3, "not the one that was taken differently"
    assert row.change == pytest.approx(0.1)
    assert (row.low, row.high) == (pytest.approx(0.0), pytest.approx(0.2))
    assert row.time.band == 0.02
    assert trend_of([timed(1, 1.0)]).rows[0].change is None, "no baseline"


def test_levels_of_kernels_are_over_their_first_nights(month: list[Night]) -> None:
    levels = trend_of(month).levels
    assert list(levels) == ["flash_attention", "matmul", "softmax", "vector_add"]
    assert levels["matmul"][-1] == pytest.approx(0.012, abs=0.005), "the step of the new driver"
    assert levels["vector_add"][-1] == pytest.approx(0.0, abs=0.005)
    assert levels["matmul"][14] is None, "nothing was timed that night"


def test_worst_of_each_kernel_over_the_nights(month: list[Night]) -> None:
    kernels = {kernel.name: kernel for kernel in trend_of(month).kernels}
    softmax = kernels["softmax"]
    assert (softmax.bad, softmax.last_bad, softmax.nights) == (2, month[-6].date, 29)
    assert softmax.worst.budget_used == math.inf and softmax.worst.row == "softmax-rising-fp32"
    assert softmax.now.failed == 0 and softmax.now.passed == 64
    assert kernels["vector_add"].picture is None, "it is exact"
    none = trend_of([simple(1, kernels={"softmax": Checked(3)})]).kernels[0]
    assert none.worst.budget_used is None and none.picture is None


def test_equal_upgrades_on_end_are_one(month: list[Night]) -> None:
    newest, before = trend_of(month).upgrades
    assert (newest.nights, newest.until) == (20, month[-1].date)
    assert newest.result is not None and newest.result.version == "0.1.16"
    assert before.nights == 10 and before.result is not None and before.result.pinned == "0.1.14"
    assert trend_of([simple(1)]).upgrades == ()
    (none,) = trend_of([simple(1, newest="0.1.15 is the newest: nothing to compare")]).upgrades
    assert none.result is None


# The page


def test_page_is_one_file_that_loads_nothing(page: str) -> None:
    tags = Tags(page)
    assert tags.of("img") == []
    assert [attrs.get("src") for attrs in tags.of("script")] == [None]
    assert {a["href"] for a in tags.of("a") if not (a["href"] or "").startswith("#")} == {"index.html"}
    ids = [attrs["id"] for _, attrs in tags.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    anchors = {(a["href"] or "")[1:] for a in tags.of("a") if (a["href"] or "").startswith("#")}
    assert len(anchors) == 5 and anchors <= set(ids)


def test_page_has_all_that_is_known(page: str, month: list[Night]) -> None:
    text = " ".join("".join(Tags(page).text).split())
    for words in (
        "Green for 5 nights, 1 row drifts",
        "30 nights, the last on 2026-01-30 02:17 UTC",
        "correctness failed",
        "guard failed",
        "softmax-size2-fp16 becomes slower",
        "it is the kernel",
        "2 of 29, last 2026-01-25",
        "inf",
        "0.1.15 → 0.1.16",
        "slows 1 of 2 rows and makes code worse",
        "580.95",
        str(month[0].seed),
        month[-1].commit[:10],
    ):
        assert words in text, words


def test_page_without_a_report_links_to_none(month: list[Night]) -> None:
    assert "index.html" not in page_of_nights(Past(tuple(month), ()))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "No night on record"),
        (nights(1), "Slow drift is looked for from 10 nights on; 1 is on record."),
        (nights(2), "2 are on record"),
        (nights(60)[:12], "a false alarm once in 1000 nights"),
        ([simple(1)], "green"),
        ([simple(1, 30, stages={"guard": "hung", "latency": "refused"})], "Red: guard hung"),
        ([simple(1, times={"softmax-one": Time(1.0, "events")})], "softmax-one"),
        ([simple(1, kernels={"softmax": Checked()})], "softmax"),
    ],
)
def test_page_of_little(found: list[Night], words: str) -> None:
    assert words in " ".join(Tags(page_of_nights(Past(tuple(found), ()))).text)


def test_page_of_no_model() -> None:
    assert "Nothing is on record yet" in page_of_nights()


def test_what_cannot_be_read_is_told_and_not_all_of_it(month: list[Night]) -> None:
    told = [f"nights.jsonl, line {n}: has schema 2, and this tilecheck reads 1" for n in range(500)]
    text = " ".join(Tags(page_of_nights(Past(tuple(month), tuple(told)))).text)
    assert "line 19: has schema 2" in text and "line 20:" not in text and "and 480 more lines" in text
    alone = " ".join(Tags(page_of_nights(Past((), tuple(told[:1])))).text)
    assert "line 0: has schema 2" in alone


def test_each_gpu_model_has_its_part(month: list[Night]) -> None:
    red = Past((*month, simple(31, 13)), ())
    text = page_of_nights(Past(tuple(month[:12]), ()), red)
    tags = Tags(text)
    assert '<h1 class="is-failed">Other GPU 0: red: correctness failed' in text, "the worst leads"
    assert {"#gpu-1", "#gpu-2"} <= {a["href"] for a in tags.of("a")}
    ids = [attrs["id"] for _, attrs in tags.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_names_and_words_are_text_in_the_page(month: list[Night]) -> None:
    bad = [hostile(night, HOSTILE) for night in month[-12:]]
    text = page_of_nights(Past((*month, *bad), (HOSTILE,)))
    tags = Tags(text)
    known = {name for name, _ in Tags(page_of_nights(Past(tuple(month), ()))).tags}
    assert {name for name, _ in tags.tags} <= known | {"ul", "li"}
    assert not [attrs for _, attrs in tags.tags if any(name.startswith("on") for name in attrs)]
    assert "".join(tags.text).count("{{7*7}}") > 20
    assert len(tags.of("script")) == 1


def test_years_of_nights_make_no_huge_page() -> None:
    many = nights(MOST + 20, of_rows=76)
    found = trend_of(many)
    assert len(found.nights) == MOST and found.older == 20
    text = page_of_nights(Past(tuple(many), ()))
    assert "20 older ones" in text
    assert len(text) < 700_000


def test_nights_that_swing_make_no_huge_page() -> None:
    swings = [
        replace(
            night,
            stages=dict.fromkeys(night.stages, ("passed", "failed", "hung")[n % 3]),
            times={
                row: replace(time, median=time.median * (1 + n % 2), verdict=("slower", "faster")[n % 2])
                for row, time in night.times.items()
            },
            upgrade=Upgraded("1", str(n), "no verdict"),
        )
        for n, night in enumerate(nights(MOST, of_rows=76))
    ]
    assert len(page_of_nights(Past(tuple(swings), ()))) < 1_500_000


# Files and the command


def test_first_page_links_to_that_of_the_nights_once_there_is_one(tmp_path: Path) -> None:
    preload.needed()
    folder.write(whole_report(), tmp_path)
    assert "trend.html" not in (tmp_path / "index.html").read_text()
    for _ in range(2):
        write_trend({}, tmp_path)
        links = Tags((tmp_path / "index.html").read_text()).of("a")
        assert [link["href"] for link in links].count("trend.html") == 1


def test_page_of_someone_else_gets_no_link(tmp_path: Path) -> None:
    preload.needed()
    (tmp_path / "index.html").write_bytes(b"<nav>mine \xff</nav>")
    write_trend({}, tmp_path)
    assert (tmp_path / "index.html").read_bytes() == b"<nav>mine \xff</nav>"


class TestCommand:
    @pytest.fixture(autouse=True)
    def pages(self) -> None:
        preload.needed()

    def run(self, capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str]:
        code = main(["report", *map(str, arguments)])
        return code, capsys.readouterr().err

    def test_nights_beside_a_report(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        kept = history(tmp_path / "history", nights(3))
        folder.write(whole_report(), tmp_path / "out")
        code, said = self.run(capsys, tmp_path / "out", "--history", kept)
        assert code == 1, "a test of the report failed"
        assert said.splitlines()[1].endswith("trend.html: Green for 3 nights")
        assert "trend.html" in (tmp_path / "out" / "index.html").read_text()
        page = (tmp_path / "out" / "trend.html").read_text()
        assert "index.html" in page and "tilecheck · example" in page

    def test_nights_alone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        kept = history(tmp_path / "history", [simple(1, 13)])
        code, said = self.run(capsys, "--history", kept, "--out", tmp_path / "out")
        assert code == 0, "written; red nights are past"
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["trend.html"]
        assert said.count("\n") == 1

    def test_report_that_is_there_stays(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder.write(whole_report(), tmp_path / "out")
        kept = history(tmp_path / "history", nights(2))
        assert self.run(capsys, "--history", kept, "--out", tmp_path / "out")[0] == 0
        assert (tmp_path / "out" / "results.json").exists()
        assert "trend.html" in (tmp_path / "out" / "index.html").read_text()

    def test_old_page_never_passes_for_a_new_one(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        kept = history(tmp_path / "history", nights(2))
        folder.write(whole_report(), tmp_path / "out")
        self.run(capsys, tmp_path / "out", "--history", kept)
        self.run(capsys, tmp_path / "out")
        assert not (tmp_path / "out" / "trend.html").exists()
        assert "trend.html" not in (tmp_path / "out" / "index.html").read_text()

    def test_clock_that_was_wrong_once(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        time = Time(1.0, "events", verdict="same")
        wrong = simple(2, times={"softmax-one": time, "softmax-gone": time})
        wrong = replace(wrong, date="2099-01-01T00:00:00+00:00")
        last = simple(3, 13, times={"softmax-one": time})
        kept = history(tmp_path / "history", [simple(1), wrong, last])
        code, said = self.run(capsys, "--history", kept, "--out", tmp_path / "out")
        assert code == 0 and said.endswith(": Red: correctness failed\n")
        text = " ".join("".join(Tags((tmp_path / "out" / "trend.html").read_text()).text).split())
        assert "3 nights, the last on 2026-01-03" in text
        assert "line 3: is dated 2026-01-03T02:17:00+00:00, before the night above it, 2099-01-01" in text
        assert "not since 2099-01-01" in text and "not since 2026-01-03" not in text

    def test_torn_line_and_other_schema(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        kept = history(tmp_path / "history", nights(3))
        file = kept / "example-gpu" / "nights.jsonl"
        first, second, third = file.read_text().splitlines(keepends=True)
        later = json.dumps({**json.loads(second), "schema": 2})
        file.write_text(f"{first}{later}\n{third[:-50]}")
        code, said = self.run(capsys, "--history", kept, "--out", tmp_path / "out")
        assert code == 0 and said.endswith(": Green\n")
        text = " ".join(Tags((tmp_path / "out" / "trend.html").read_text()).text)
        assert "line 2: has schema 2, and this tilecheck reads 1; it is passed over" in text
        assert "line 3: no JSON" in text

    def test_empty_history(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "history").mkdir()
        code, said = self.run(capsys, "--history", tmp_path / "history", "--out", tmp_path / "out")
        assert code == 0 and said.endswith("No night on record\n")

    @pytest.mark.parametrize(
        ("lines", "words"),
        [(1, "The only line on record cannot be read"), (3, "None of 3 lines on record can be read")],
    )
    def test_only_lines_of_a_later_schema(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], lines: int, words: str
    ) -> None:
        kept = history(tmp_path / "history", nights(lines))
        file = kept / "example-gpu" / "nights.jsonl"
        file.write_text(file.read_text().replace('"schema": 1', '"schema": 2'))
        code, said = self.run(capsys, "--history", kept, "--out", tmp_path / "out")
        assert code == 0 and said.endswith(f": {words}\n")
        text = " ".join(Tags((tmp_path / "out" / "trend.html").read_text()).text)
        assert f"line {lines}: has schema 2" in text

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ((), "of what? DIR of a report, or --history DIR of all nights"),
            (("--history", "history"), "--out DIR: where shall the report be written?"),
            (("--history", "nothing", "--out", "c"), "nothing: No such file or directory; tilecheck nightly"),
            (("a", "--history", "nothing"), "nothing: No such file or directory; tilecheck nightly keeps it"),
            (("--history", "history", "--out", "other"), "trend.html in other is no report of tilecheck's"),
        ],
    )
    def test_mistakes(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        arguments: tuple[str, ...],
        words: str,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        history(tmp_path / "history", [simple(1)])
        folder.write(whole_report(), tmp_path / "a")
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "trend.html").write_text("<p>mine")
        code, said = self.run(capsys, *arguments)
        assert code == 2
        assert said.startswith("tilecheck: ") and words in said and said.count("\n") == 1
        assert (tmp_path / "a" / "index.html").exists(), "nothing was cleared"
        assert (tmp_path / "other" / "trend.html").read_text() == "<p>mine"
