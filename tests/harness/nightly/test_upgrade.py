"""The newest TileLang beside the pinned one: what runs under which, and what is made of it."""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tilecheck.nightly import asking, upgrade
from tilecheck.nightly.newest import Newest
from tilecheck.nightly.plan import Choice
from tilecheck.nightly.stages import Ended, Stage
from tilecheck.nightly.words import upgrade_lines, upgrade_verdict
from tilecheck.versions import NoEnvironment

ROW = {"row": "softmax-one", "verdict": "slower", "old": 1e-4, "new": 1.1e-4, "ratio": 1.1}


class Played:
    """Stands for `run_stage`.  states: of each part, by name.  tests: what pytest's file says of them; None:
    there is none.  code: pytest's exit code.
    """

    def __init__(
        self, tests: str | None = '<testcase name="test_output"/>', code: int = 0, **states: str
    ) -> None:
        self._tests, self._code, self._states = tests, code, states
        self.stages: list[Stage] = []
        self.variables: dict[str, str] = {}

    def __call__(self, stage: Stage, logs: Path, root: Path, variables: dict[str, str]) -> Ended:
        self.stages.append(stage)
        self.variables = variables
        if stage.name == "correctness" and self._tests is not None:
            (logs.parent / "junit.xml").write_text(f"<testsuite>{self._tests}</testsuite>")
        if stage.name == "latency":
            (logs.parent / "ab.json").write_text(json.dumps({"rows": [ROW]}))
        if stage.name == "codegen":
            (logs.parent / "diff-codegen.txt").write_text(
                "a -> b\n\nworse x\n\n2 rows: 1 worse,\n1 same. Not safe: matmul-x-sm_90a compiles no more.\n"
            )
        codes = (self._code if stage.name == "correctness" else 0,)
        state = self._states.get(stage.name, "passed")
        return Ended(stage.name, state, 1.0, codes=codes)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "newest").mkdir()
    return tmp_path / "newest"


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, played: Played, *options: str, found: Newest | None = None
) -> tuple[int, upgrade.Upgrade]:
    wanted = found or Newest("0.1.16", "https://example.org", "TileLang 0.1.16, the newest nightly build")
    monkeypatch.setattr(upgrade, "newest", lambda *_: wanted)
    monkeypatch.setattr(upgrade, "version", lambda _: "0.1.15")
    monkeypatch.setattr(upgrade, "run_stage", played)
    monkeypatch.setattr(upgrade, "environment_with", _environment)
    given = upgrade._parser().parse_args(
        [str(folder.parent), str(folder), "--arch=sm_90a", "--seed=7", *options]
    )
    code = upgrade.main(given)
    result = upgrade.read(folder)
    assert result is not None
    return code, result


def _environment(version: str, told: Any, index: str) -> Any:
    if version == "0.9":
        raise NoEnvironment("pip failed (exit code 1): no such version")
    assert index == "https://example.org"

    class Made:
        python = Path("/environments/0.1.16/bin/python")

    return Made


def test_both_are_set_side_by_side(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    played = Played(latency="failed", codegen="failed")
    monkeypatch.setattr(upgrade, "timed", lambda *_: ["softmax-one", "softmax-one-more"])
    code, result = run(monkeypatch, folder, played, "--arguments=-k 'softmax and one'")
    assert code == 1
    correctness, latency, codegen = (stage.steps[0].command for stage in played.stages)
    assert correctness[0] == "/environments/0.1.16/bin/python"  # under the newest alone
    assert correctness[-2:] == ("-k", "softmax and one")
    assert {"--tilecheck-seed=7", "--tilecheck-require-gpu"} <= set(correctness)
    assert latency[2:6] == ("tilecheck", "ab", "installed", "tilelang==0.1.16")  # in turn, on one GPU
    assert latency[7:] == ("-k", "softmax-one", "-k", "softmax-one-more")
    assert codegen[2:] == ("tilecheck", "diff-codegen", "0.1.15", "0.1.16", "--arch", "sm_90a")
    assert played.variables["TILELANG_CACHE_DIR"] == str(folder / "kernel-cache")
    assert result.codegen == "2 rows: 1 worse, 1 same. Not safe: matmul-x-sm_90a compiles no more."
    assert result.of("slower") == [ROW]
    words = "0.1.15 -> 0.1.16: slows 1 of 1 row and makes code worse: matmul-x-sm_90a compiles no more"
    assert upgrade_verdict(result) == words
    assert "softmax-one: slower, 100 us -> 110 us (+10.0 %)" in upgrade_lines(result)


PYTEST = """#!/bin/sh
echo "$@" >&2
echo 'tests/test_latency.py::test_latency[softmax-one]'
echo 'tests/test_latency.py::test_latency[matmul-square-512-fp16]'
echo ''
echo '2/76 tests collected (74 deselected) in 1.02s'
"""


def test_rows_that_are_timed_are_those_that_pytest_selects(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(PYTEST)
    python.chmod(0o755)
    choice = Choice(str(python), tmp_path, gpu="", seed=7, arguments=("-k", "one or 512"))
    assert upgrade.timed(choice, tmp_path) == ["softmax-one", "matmul-square-512-fp16"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo 'ERROR: Wrong expression passed to -k' >&2; exit 4",
            "exit code 4: ERROR: Wrong expression passed",
        ),
        (
            "echo 'E   ImportError: no kernels'; echo 'no tests collected, 1 error in 0.42s'; exit 2",
            "exit code 2: ImportError: no kernels",
        ),
        ("kill -9 $$", "exit code -9: it said nothing"),
        ("echo '2 tests collected in 1.02s'", "it selects some, and lists none"),
        ("exec sleep 600", "no answer within 0.3 s"),
    ],
)
def test_pytest_that_cannot_say_what_it_selects_is_not_one_that_selects_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, words: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    seconds = 0.3 if "sleep" in script else 60.0
    monkeypatch.setattr(upgrade, "answer", functools.partial(asking.answer, seconds=seconds))
    with pytest.raises(asking.Unanswered) as raised:
        upgrade.timed(Choice(str(python), tmp_path, gpu="", seed=7, arguments=("-k", "one")), tmp_path)
    assert str(raised.value).startswith(words)


def test_timing_is_broken_where_pytest_does_not_say_what_is_selected(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """A night that times nothing for a mistake must not look as if its arguments left nothing to be timed."""

    def timed(*_: Any) -> list[str]:
        raise asking.Unanswered("exit code 4: ERROR: Wrong expression passed to '-k'")

    played = Played()
    monkeypatch.setattr(upgrade, "timed", timed)
    code, result = run(monkeypatch, folder, played, "--arguments=-k softmax")
    assert code == 3
    assert [stage.name for stage in played.stages] == ["correctness", "codegen"]
    why = "pytest does not say which rows -k selects: exit code 4: ERROR: Wrong expression passed to '-k'"
    assert f"latency: broken: {why}" in upgrade_lines(result)
    assert upgrade_verdict(result).endswith("not answered: latency")


def test_all_rows_are_timed_where_none_are_named(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    played = Played()
    run(monkeypatch, folder, played)
    assert "-k" not in played.stages[1].steps[0].command


def test_nothing_is_timed_where_no_row_is_selected(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    played = Played()
    monkeypatch.setattr(upgrade, "timed", lambda *_: [])
    _, result = run(monkeypatch, folder, played, "--arguments=-k nothing")
    assert result.states == {"correctness": "passed", "latency": "skipped", "codegen": "passed"}
    assert [stage.name for stage in played.stages] == ["correctness", "codegen"]
    assert upgrade_verdict(result).endswith("not answered: latency")


def test_parts_share_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    played = Played()
    run(monkeypatch, folder, played, "--seconds=1000")
    limits = [stage.seconds for stage in played.stages]
    assert all(0 < limit < 1000 for limit in limits)


def test_nothing_speaks_against_it(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setitem(ROW, "verdict", "same")
    code, result = run(monkeypatch, folder, Played())
    assert code == 0
    assert upgrade_verdict(result) == "0.1.15 -> 0.1.16: nothing speaks against it"


def test_part_that_hangs_is_no_answer(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setitem(ROW, "verdict", "same")
    code, result = run(monkeypatch, folder, Played(correctness="hung"))
    assert code == 3
    assert upgrade_verdict(result).endswith(": no verdict; not answered: correctness")


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ('<testcase name="test_output"><skipped/></testcase>', "no test ran: 1 skipped"),
        ("", "no test ran"),
        (None, "pytest left no junit.xml that can be read"),
    ],
)
def test_correctness_without_a_test_that_ran_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, folder: Path, tests: str | None, words: str
) -> None:
    monkeypatch.setitem(ROW, "verdict", "same")
    code, result = run(monkeypatch, folder, Played(tests))
    assert code == 3
    assert f"correctness: broken: {words}" in upgrade_lines(result)
    assert upgrade_verdict(result).endswith(": no verdict; not answered: correctness")


def test_keyword_that_selects_no_test_leaves_correctness_open(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setitem(ROW, "verdict", "same")
    monkeypatch.setattr(upgrade, "timed", lambda *_: ["softmax-one"])
    code, result = run(monkeypatch, folder, Played(None, 5, correctness="broken"), "--arguments=-k nothing")
    assert code == 0
    assert "correctness: skipped: -k selects none of it" in upgrade_lines(result)
    assert upgrade_verdict(result).endswith(": no verdict; not answered: correctness")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{**ROW, "verdict": "inconclusive"}, {**ROW, "verdict": "same"}], "leaves 1 of 2 rows inconclusive"),
        ([{**ROW, "verdict": "not compared", "wrong": True}], "breaks kernels"),
        ([], "leaves no row timed"),
    ],
)
def test_times_that_fail_are_told_though_no_row_is_slower(rows: list[dict[str, Any]], words: str) -> None:
    part = Ended("latency", "failed", 1.0, codes=(3,))
    found = upgrade.Upgrade("0.1.16", "0.1.15", parts=(part,), rows=tuple(rows), planned=("latency",))
    assert upgrade_verdict(found) == f"0.1.15 -> 0.1.16: {words}"


def test_without_a_gpu_nothing_is_timed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    played = Played()
    _, result = run(monkeypatch, folder, played, "--simulate")
    assert upgrade_verdict(result).endswith("; without a GPU, so times were not compared")
    assert [stage.name for stage in played.stages] == ["correctness", "codegen"]
    assert "--tilecheck-device=simulator" in played.stages[0].steps[0].command


@pytest.mark.parametrize(
    ("found", "code", "words"),
    [
        (
            Newest("", "", "it is the pinned one: there is nothing to compare"),
            0,
            "nothing to compare",
        ),
        (Newest("", "", "fell back: pip finds no release"), 3, "fell back: pip finds no release"),
        (
            Newest("0.9", "", "TileLang 0.9"),
            3,
            "0.1.15 -> 0.9: no verdict: it could not be installed: pip failed (exit code 1): no such version",
        ),
    ],
)
def test_no_version_to_compare_with_is_said(
    monkeypatch: pytest.MonkeyPatch, folder: Path, found: Newest, code: int, words: str
) -> None:
    ended, result = run(monkeypatch, folder, Played(), found=found)
    assert ended == code
    assert words in "\n".join(upgrade_lines(result))


def test_what_is_no_version_is_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = upgrade._parser().parse_args([str(folder.parent), str(folder), "--wanted="])
    assert upgrade.main(given) == 2
    said = capsys.readouterr().err
    assert said == "error: --wanted: '' is no version of TileLang; give auto, off, or one as 0.1.14\n"
    assert upgrade.read(folder) is None


def test_part_that_did_not_end_is_no_answer(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    class Killed(Played):
        def __call__(self, stage: Stage, *others: Any) -> Ended:
            if stage.name == "codegen":
                raise KeyboardInterrupt
            return super().__call__(stage, *others)

    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, folder, Killed(), "--simulate")
    result = upgrade.read(folder)
    assert result is not None and result.states == {"correctness": "passed", "codegen": "missing"}
    assert "codegen: missing" in upgrade_lines(result)
    assert ": no verdict; not answered: codegen; without a GPU" in upgrade_verdict(result)


def test_result_of_an_earlier_version_is_read(folder: Path) -> None:
    part = {"name": "correctness", "state": "passed", "seconds": 9.0, "codes": [0]}
    old = {"version": "0.1.16", "pinned": "0.1.15", "words": "", "codegen": "", "rows": []}
    answers = (([part], "nothing speaks against it"), ([], "no verdict: it could not be installed"))
    for parts, words in answers:
        (folder / "newest.json").write_text(json.dumps({**old, "parts": parts}))
        result = upgrade.read(folder)
        assert result is not None and upgrade_verdict(result) == f"0.1.15 -> 0.1.16: {words}"


def test_result_that_is_not_whole_is_none(folder: Path) -> None:
    assert upgrade.read(folder) is None
    (folder / "newest.json").write_text('{"parts": [')
    assert upgrade.read(folder) is None
