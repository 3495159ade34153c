"""What pytest leaves behind is read back: which kernel and case failed, and how to repeat it."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.report.examples import latency_of, rows_of, whole_report
from tilecheck.nightly.night import Checked, Time
from tilecheck.nightly.results import Junit, Rows, checked, read_junit, read_report, with_bars
from tilecheck.report.codec import to_json

pytest_plugins = ["pytester"]

IDS = {
    "matmul-square-fp16": ("matmul", "square-fp16"),
    "matmul-bias-gelu-square-fp16": ("matmul_bias_gelu", "square-fp16"),
    "softmax-one": ("softmax", "one"),
    "softmax-one-more": ("softmax", "one-more"),
}


@pytest.mark.parametrize(
    ("test", "row"),
    [
        ("tests/t.py::test_output[matmul-square-fp16]", ("matmul", "square-fp16")),
        ("tests/t.py::test_output[matmul-bias-gelu-square-fp16]", ("matmul_bias_gelu", "square-fp16")),
        ("tests/t.py::test_output[matmul-square-fp16-stages=2]", ("matmul", "square-fp16")),
        ("tests/t.py::test_no_findings[softmax-one-memcheck]", ("softmax", "one")),
        ("tests/t.py::test_no_findings[memcheck-softmax-one-more]", ("softmax", "one-more")),
        ("tests/t.py::test_output[softmax-only]", ("", "")),
        ("tests/t.py::test_softmax_one", ("", "")),
    ],
)
def test_kernel_and_case_of_a_test(test: str, row: tuple[str, str]) -> None:
    assert Rows(IDS).find(test) == row


MODULE = """
import pytest

@pytest.mark.parametrize("row", ["softmax-one", "softmax-one-more"])
def test_output(row):
    message = "softmax is wrong for one (N=8)\\nthe case is there for: a tail\\nschedule: S(1)"
    message += "\\nY: 3 of 8 elements wrong"
    message += "\\nrepeat: pytest \\"x[softmax-one]\\" --seed=7"
    assert row != "softmax-one", message

class TestClass:
    def test_harness(self):
        assert 1 == 2

    def test_skipped(self):
        pytest.skip("no GPU")

@pytest.fixture
def broken():
    raise RuntimeError("no bench")

def test_error(broken):
    pass
"""


def run(pytester: pytest.Pytester, *arguments: str) -> Junit:
    tests = pytester.mkdir("checks")  # another name than this repository's: modules are known by it
    (tests / "test_softmax.py").write_text(MODULE)
    pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "--junit-xml=junit.xml", "--import-mode=importlib", *arguments
    )
    found = read_junit(pytester.path / "junit.xml", "correctness", pytester.path, Rows(IDS), 7)
    assert found is not None
    return found


def test_failures_of_a_real_run(pytester: pytest.Pytester) -> None:
    found = run(pytester)
    assert found.counts == {"passed": 1, "failed": 3, "skipped": 1}
    wrong, harness, error = found.failures
    assert (wrong.kernel, wrong.case, wrong.stage) == ("softmax", "one", "correctness")
    assert wrong.test == "checks/test_softmax.py::test_output[softmax-one]"
    assert wrong.words == "Y: 3 of 8 elements wrong"
    assert wrong.repeat == 'pytest "x[softmax-one]" --seed=7'
    assert harness.test == "checks/test_softmax.py::TestClass::test_harness"
    assert harness.repeat == 'pytest "checks/test_softmax.py::TestClass::test_harness" --tilecheck-seed=7'
    assert "no bench" in error.words


def test_module_that_cannot_be_imported(pytester: pytest.Pytester) -> None:
    (pytester.mkdir("checks") / "test_broken.py").write_text("import nowhere_to_be_found")
    pytester.runpytest_inprocess("-p", "no:cacheprovider", "--junit-xml=junit.xml", "--import-mode=importlib")
    found = read_junit(pytester.path / "junit.xml", "correctness", pytester.path, Rows(IDS), 7)
    assert found is not None
    (failure,) = found.failures
    assert failure.test == "checks/test_broken.py"


def test_that_pytest_failed_inside_is_no_failure_of_a_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("def pytest_collection_modifyitems(): raise RuntimeError('no')")
    found = run(pytester)
    assert found.failures == () and found.counts["failed"] == 0


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite", None])
def test_file_that_is_not_whole_is_none(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "junit.xml"
    if text is not None:
        path.write_text(text)
    assert read_junit(path, "correctness", tmp_path, Rows(IDS), 0) is None


def test_kernels_as_the_reports_of_the_stages_have_them() -> None:
    report = whole_report()
    schedules = replace(report, tests=tuple(replace(t, section="schedules") for t in rows_of("matmul")))
    found = checked([report, schedules])
    wrong = found["softmax"]
    assert (wrong.passed, wrong.failed, wrong.other) == (11, 1, 0)
    assert wrong.budget_used == float("inf") and wrong.row == "softmax-sof-tails-bf16"
    assert found["matmul"].passed == 24
    skipped = replace(rows_of("matmul")[0], outcome="skipped")
    elsewhere = replace(rows_of("matmul")[1], section="latency")
    only = replace(report, tests=(skipped, elsewhere), numerics=())
    assert checked([only]) == {"matmul": Checked(other=1)}
    assert checked([]) == {}


def test_times_get_what_they_were_compared_with(tmp_path: Path) -> None:
    known = latency_of("matmul")[0]
    times = {known.row: Time(1.0, "events"), "softmax-new": Time(2.0, "events")}
    (tmp_path / "results.json").write_text(to_json(whole_report()))
    found = with_bars(times, read_report(tmp_path))
    assert found[known.row] == Time(1.0, "events", old=known.old, band=known.band)
    assert found["softmax-new"] == times["softmax-new"]


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_report_that_is_not_there_or_broken_costs_no_time(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "results.json").write_text(text)
    assert read_report(tmp_path) is None
    times = {"softmax-one": Time(1.0, "events")}
    assert with_bars(times, read_report(tmp_path)) == times
