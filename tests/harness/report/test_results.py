"""results.json is read back as it was written, and a wrong one refused with the place of its mistake; several
runs become one report.
"""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.report import preload
from tests.harness.report.examples import rows_of, run_of, whole_report
from tilecheck.cli import main
from tilecheck.report import folder
from tilecheck.report.assembly import assemble, function_of
from tilecheck.report.codec import to_json
from tilecheck.report.journal import FILE, Journal
from tilecheck.report.merging import merge
from tilecheck.report.model import Report
from tilecheck.report.overview import headline, sections


def written(report: Report, path: Path) -> Path:
    path.mkdir()
    folder.replace(path / "results.json", to_json(report))
    return path


def test_round_trip(report: Report, tmp_path: Path) -> None:
    assert folder.read(written(report, tmp_path / "a")) == report
    text = (tmp_path / "a" / "results.json").read_text()
    assert any(math.isinf(each.budget_used) for each in report.numerics)
    assert "Infinity" not in text, "no JSON"


def edit(content: Any, place: str, value: Any) -> None:
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    for part in path:
        content = content[part]
    content[last] = value


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        ("schema", 2, "has schema 2, and this tilecheck reads 1"),
        ("tests.3.seconds", "long", 'the whole: tests[3]: seconds is "long", no number'),
        ("tests.3.seconds", 10**400, "the whole: tests[3]: seconds is 1000"),
        ("tests.3.outcome", None, "the whole: tests[3]: outcome is null, no string"),
        ("tests.3.color", "red", "the whole: tests[3]: 'color' unknown"),
        ("numerics.0.empirical", 1, "the whole: numerics[0]: empirical is 1, no truth value"),
        ("code.0.facts", [1], "the whole: code[0]: facts is [1], no object"),
        ("code.0.facts.threads", {"x": 1.5}, "code[0]: facts: threads: x is 1.5, no integer"),
        ("runs", {}, "the whole: runs is {}, no list"),
        ("runs.0", {"started": ""}, "the whole: runs[0]: seconds, ended, exit missing"),
    ],
)
def test_mistakes_are_named_by_their_place(
    report: Report, tmp_path: Path, place: str, value: Any, words: str
) -> None:
    content = json.loads(to_json(report))
    edit(content, place, value)
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(folder.ReportError) as caught:
        folder.read(tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_another_version_wrote_is_named_as_that(report: Report, tmp_path: Path) -> None:
    content = json.loads(to_json(report)) | {"tilecheck": "9.0", "colors": []}
    (tmp_path / "results.json").write_text(json.dumps(content))
    with pytest.raises(
        folder.ReportError, match=r"is of tilecheck '9\.0', and this is .*'colors' unknown; take"
    ):
        folder.read(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[" * 100000, "[]", '{"schema": 1}'])
def test_what_is_no_report_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(folder.ReportError):
        folder.read(tmp_path)


def test_merged_runs_keep_their_own(report: Report) -> None:
    (test,) = rows_of("vector_add")[:1]
    other = replace(
        report,
        runs=(run_of(started="2026-02-01T00:00:00+00:00", device="cuda", gpu="Example GPU", exit=0),),
        tests=(replace(test, outcome="passed"),),
        numerics=report.numerics[:1],
        latency=(),
        history=report.history,
    )
    both = merge([report, other])
    assert len(both.runs) == 2
    assert len(both.tests) == len(report.tests) + 1
    assert {each.run for each in both.tests} == {0, 1}
    assert both.numerics[-1].run == 1
    assert both.history[0].gpu == report.history[0].gpu
    assert set(both.history[0].rows) == set(report.history[0].rows), "stored rows once"
    assert headline(both).words == "1 of 38 tests failed"


@pytest.mark.parametrize(
    ("outcomes", "code", "state", "words"),
    [
        (["passed", "passed", "skipped"], 0, "passed", "2 tests passed, on the simulator"),
        (["passed", "xfailed"], 0, "passed", "1 test passed, 1 failed as expected, on the simulator"),
        (["skipped", "skipped"], 0, "skipped", "all 2 tests were skipped"),
        (["passed", "error", "failed"], 1, "failed", "2 of 3 tests failed"),
        (["passed"], 3, "failed", "no test failed, and pytest ended with exit code 3"),
        ([], 5, "not run", "nothing was run"),
    ],
)
def test_whole_report_in_one_line(
    report: Report, outcomes: list[str], code: int, state: str, words: str
) -> None:
    tests = tuple(replace(report.tests[i], outcome=outcome) for i, outcome in enumerate(outcomes))
    line = headline(replace(report, runs=(run_of(exit=code),), tests=tests))
    assert (line.state, line.words) == (state, words)


def test_one_run_is_not_merged_with_itself(report: Report) -> None:
    with pytest.raises(ValueError, match="is there twice"):
        merge([report, report])


def test_run_that_died_is_made_of_what_it_wrote(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    head = {"tilecheck": "0", "project": "p", "run": run_of(), "kernels": [], "history": []}
    one, two = rows_of("matmul")[:2]
    journal.add("head", 0.5, **head)
    journal.add("plan", 1.0, functions={function_of(one.id): 3}, sections={})
    journal.add("begin", 1.0, test=replace(one, outcome="crashed"))
    journal.add("phase", 2.0, test=one, when="call")
    journal.add("begin", 2.0, test=replace(two, outcome="crashed", repeat="again"))
    journal.close()
    with (tmp_path / FILE).open("a") as file:
        file.write('{"event": "phase", "at": 3, "te')
    found = folder.read(tmp_path)
    assert found == assemble(journal.events)
    assert {test.id: test.outcome for test in found.tests} == {one.id: "passed", two.id: "crashed"}
    assert found.tests[1].repeat == "again"
    assert headline(found).words == "ended early after 2 tests, 1 of which failed: the process died"
    assert {view.name: view.state for view in sections(found)}["correctness"] == "crashed"


class TestCommand:
    def run(self, capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str]:
        preload.needed()
        code = main(["report", *map(str, arguments)])
        return code, capsys.readouterr().err

    def test_several_runs_become_one(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        first = written(whole_report(), tmp_path / "a")
        other = replace(whole_report(), runs=(run_of(started="2026-02-01T00:00:00+00:00"),), latency=())
        second = written(other, tmp_path / "b")
        code, said = self.run(capsys, first, second, "--out", tmp_path / "c")
        assert code == 1, "a test failed"
        assert said.endswith("index.html: 2 of 74 tests failed\n")
        assert sorted(p.name for p in (tmp_path / "c").iterdir()) == [
            "index.html",
            "results.json",
            "summary.md",
        ]

    def test_one_is_made_anew_where_it_is(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = written(
            replace(whole_report(), tests=tuple(rows_of("matmul")), runs=(run_of(),)), tmp_path / "a"
        )
        assert self.run(capsys, path)[0] == 0
        assert (path / "index.html").exists()

    @pytest.mark.parametrize("died", [False, True], ids=["whole", "died"])
    def test_what_cannot_be_made_anew_is_not_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], died: bool
    ) -> None:
        path = written(whole_report(), tmp_path / "a")
        if died:
            for file in path.iterdir():
                file.unlink()
            Journal(path).add("head", 0.0, tilecheck="0", project="p", run=run_of(), kernels=[], history=[])
        before = {file.name: file.read_bytes() for file in path.iterdir()}

        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        code, said = self.run(capsys, path)
        assert code == 2 and "was not written: No space left on device" in said
        assert {file.name: file.read_bytes() for file in path.iterdir()} == before

    @pytest.mark.parametrize("name", ["index.html", "trend.html", "results.json", "results.partial.jsonl"])
    @pytest.mark.parametrize("to", ["a", "c"])
    def test_what_is_no_regular_file_is_not_waited_for(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, to: str
    ) -> None:
        """Neither of those that are read nor of those that are written over."""
        written(whole_report(), tmp_path / "a")
        (tmp_path / "c").mkdir()
        (tmp_path / to / name).unlink(missing_ok=True)
        os.mkfifo(tmp_path / to / name)
        out = tmp_path / ("c" if to == "c" or name.startswith("results") else "a")
        code, said = self.run(capsys, tmp_path / "a", "--out", out)
        assert code == 2
        assert said.endswith(f"/{name} is no regular file; remove it, or name another folder\n")
        assert said.startswith("tilecheck: ") and said.count("\n") == 1

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("a", "a"), "--out DIR: where shall the report be written?"),
            (("nothing",), "nothing: there is no such folder"),
            (("x" * 300,), "x: File name too long"),
            (
                ("a", "a", "--out", "c"),
                "the run of 2026-01-31T14:05:00+00:00 (simulator, as sm_90a) is there twice",
            ),
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
        written(whole_report(), tmp_path / "a")
        code, said = self.run(capsys, *arguments)
        assert code == 2
        assert said.startswith("tilecheck: ") and words in said and said.count("\n") == 1
        assert not (tmp_path / "c").exists()
