"""Each failure once: since when, with which seed, what changed, and whether the code did."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.facts import HOPPER
from tilecheck.codegen.collection import Collection, parse
from tilecheck.nightly.drift import Drift
from tilecheck.nightly.night import Failure, Night, Time
from tilecheck.nightly.triage import Finding, drift_lines, triage

STAGES = {"latency": "passed", "correctness": "passed", "schedules": "passed", "codegen": "passed"}
TOOLCHAIN = {"tilelang": "0.1.15", "torch": "2.13", "driver": "580.1"}
ROW = "matmul-square-fp16"


def night(day: int, *failures: Failure, **given: object) -> Night:
    base = Night(
        date=f"2026-11-{day:02}",
        gpu="NVIDIA H200",
        seed=100 + day,
        exit_code=0,
        commit="a" * 40,
        arch="sm_90a",
        toolchain=TOOLCHAIN,
        stages=STAGES,
        failures=failures,
        facts="old",
    )
    return replace(base, **given)  # type: ignore[arg-type]


def wrong(stage: str = "correctness", variant: str = "") -> Failure:
    module = "test_schedules" if stage == "schedules" else "test_correctness"
    test = f"tests/{module}.py::test_output[{ROW}{variant}]"
    return Failure(stage, test, "matmul", "square-fp16", "matmul is wrong", f'pytest "{test}" --seed=104')


SLOW = Failure(
    "latency", f"tests/test_latency.py::test_latency[{ROW}]", "matmul", "square-fp16", "is slower", "pytest x"
)


def slow_night(day: int, verdict: str = "slower", **given: object) -> Night:
    return night(day, SLOW, times={ROW: Time(1e-4, "events", verdict=verdict)}, **given)


def facts(sass: str, registers: int = 168) -> Collection:
    made = replace(HOPPER, registers=registers, sass_hash=sass)
    row = {"kernel": "matmul", "case": "square-fp16", "variant": "default", "arch": "sm_90a"}
    return parse(json.dumps({"toolchain": {}, "rows": [{**row, "facts": made.as_json()}]}), "test")


KEPT = {"old": facts("s1"), "new": facts("s2", 255)}


def found(tonight: Night, *before: Night, root: Path = Path()) -> list[Finding]:
    return triage(tonight, before, KEPT.get, root)


def test_many_schedules_are_one_finding_with_the_simplest_command() -> None:
    failures = [wrong("schedules", f"-stages={n}-threads=128") for n in range(9)]
    (one,) = found(night(4, wrong(), *failures), night(3))
    assert one.kind == "wrong" and one.name == "matmul, square-fp16"
    assert one.tests == {"correctness": 1, "schedules": 9}
    assert one.repeat == f'pytest "tests/test_correctness.py::test_output[{ROW}]" --seed=104'
    text = "\n".join(one.lines())
    assert "in correctness (1 test), schedules (9 tests); new tonight; first bad seed 104" in text


def test_first_bad_seed_is_that_of_the_first_night_on_end() -> None:
    before = [night(1, wrong()), night(2), night(3, wrong()), night(4, wrong())]
    (one,) = found(night(5, wrong()), *before)
    assert (one.since, one.first_seed, one.nights) == ("2026-11-03", 103, 3)
    assert one.changed[0].startswith("right on 2026-11-02")


def test_night_on_which_it_failed_otherwise_ends_those_on_end() -> None:
    before = [night(1), slow_night(2), slow_night(3, "faster"), slow_night(4, "inconclusive")]
    (one,) = found(slow_night(5), *before)
    assert (one.since, one.nights) == ("2026-11-05", 1)
    assert "new tonight" in one.lines()[1]
    assert one.changed[0].startswith("right on 2026-11-01"), "on the others it failed"
    (one,) = found(slow_night(6), *before, slow_night(5))
    assert (one.since, one.nights) == ("2026-11-05", 2)


@pytest.mark.parametrize("state", ["hung", "refused", "broken"])
def test_nights_that_did_not_answer_are_passed_over(state: str) -> None:
    silent = night(3, stages={**STAGES, "correctness": state})
    (one,) = found(night(4, wrong()), night(1), night(2, wrong()), silent)
    assert (one.since, one.nights) == ("2026-11-02", 2)
    assert one.changed[0].startswith("right on 2026-11-01")


def test_nights_that_may_have_left_the_row_out_are_passed_over() -> None:
    narrow = night(3, arguments=("-k", "softmax"))
    (one,) = found(night(4, wrong()), night(1), night(2, wrong(), arguments=("-k", "matmul")), narrow)
    assert (one.since, one.nights) == ("2026-11-02", 2), "a failure that is reported was run"
    assert one.changed[0].startswith("right on 2026-11-01")
    (one,) = found(night(4, wrong()), narrow)
    assert one.changed == ("no night is on record on which it is known to have been right",)
    (one,) = found(night(4, wrong(), arguments=("-k", "softmax")), narrow)
    assert one.changed[0].startswith("right on 2026-11-03"), "with the same arguments it did run"


def test_row_that_was_timed_has_run_whatever_the_arguments() -> None:
    timed = night(3, times={ROW: Time(1e-4, "events", verdict="same")}, arguments=("-k", "matmul"))
    (one,) = found(slow_night(4), night(1), timed)
    assert one.changed[0].startswith("right on 2026-11-03")


def test_only_the_seed_changed() -> None:
    (one,) = found(night(4, wrong()), night(3))
    assert one.changed == (
        "right on 2026-11-03; since then only the seed changed, 103 -> 104: neither commit nor versions did",
    )
    assert one.bisect == ""


@pytest.mark.parametrize(
    ("good", "tonight", "line"),
    [
        ({"dirty": True}, {}, "and the working tree had changes then that are in no commit"),
        ({}, {"dirty": True}, "and the working tree has changes that are in no commit"),
        ({"commit": ""}, {"commit": ""}, "commit unknown, then and now"),
        ({"commit": ""}, {}, f"commit unknown -> {'a' * 10}"),
        ({}, {"commit": ""}, f"commit {'a' * 10} -> unknown"),
    ],
)
def test_sources_that_no_commit_tells_may_have_changed(
    good: dict[str, object], tonight: dict[str, object], line: str
) -> None:
    (one,) = found(night(4, wrong(), **tonight), night(3, **good))
    assert one.changed == ("right on 2026-11-03; changed since then:", f"  {line}")
    (slow,) = found(slow_night(4, facts="new", **tonight), night(3, **good))
    assert slow.changed[-1].startswith("other code (SASS): us: ")


def test_versions_that_changed_and_the_command_that_finds_the_release() -> None:
    newer = {**TOOLCHAIN, "tilelang": "0.1.16", "driver": "590.2"}
    (one,) = found(night(4, wrong(), toolchain=newer), night(3))
    assert "  driver 580.1 -> 590.2, tilelang 0.1.15 -> 0.1.16" in one.changed
    assert one.bisect == (
        "tilecheck bisect matmul --case square-fp16 --by correctness --tilelang 0.1.15..0.1.16 --seed 104"
    )


def test_no_good_night_is_said() -> None:
    (one,) = found(night(4, wrong()))
    assert one.changed == ("no night is on record on which it is known to have been right",)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for number in range(8):
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        if number == 0:
            subprocess.run(["git", "-C", str(tmp_path), "init", "--quiet"], check=True)
        commit = ["commit", "--quiet", "--allow-empty", "-m", f"change {number}"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *commit], check=True)
    return tmp_path


def commit(repository: Path, ref: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), "rev-parse", ref], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_commits_between_are_named(repository: Path) -> None:
    old, new = commit(repository, "HEAD~6"), commit(repository, "HEAD")
    (one,) = found(night(4, wrong(), commit=new), night(3, commit=old), root=repository)
    lines = [line.strip() for line in one.changed]
    assert lines[1] == f"commit {old[:10]} -> {new[:10]}"
    assert [line if line.startswith("and") else line.partition(" ")[2] for line in lines[2:]] == [
        *("change 7", "change 6", "change 5", "change 4", "change 3"),
        "and 1 more",
    ]
    assert f"--good {old[:10]} --bad {new[:10]}" in one.bisect


def test_words_of_a_line_are_options_neither_of_git_nor_of_a_shell(repository: Path, tmp_path: Path) -> None:
    written = tmp_path / "written"
    old = night(3, commit=f"--output={written}", toolchain={**TOOLCHAIN, "tilelang": "0.1;id"})
    (one,) = found(night(4, wrong(), commit=commit(repository, "HEAD")), old, root=repository)
    assert not list(tmp_path.glob("written*"))
    assert "--tilelang '0.1;id..0.1.15'" in one.bisect
    case = replace(wrong(), case="$(id)")
    (one,) = found(night(4, case), old)
    assert "--case '$(id)'" in one.bisect


def test_commit_that_git_does_not_take_is_no_crash(repository: Path) -> None:
    new = commit(repository, "HEAD")
    (one,) = found(night(4, wrong(), commit=new), night(3, commit="\0"), root=repository)
    assert len(one.changed) == 2


def test_slower_with_the_same_code_is_the_machine_or_the_driver() -> None:
    newer = {**TOOLCHAIN, "driver": "590.2"}
    (one,) = found(slow_night(4, toolchain=newer), night(3))
    assert one.kind == "slower"
    assert "same code (SASS), slower: the machine or the driver (580.1 -> 590.2)" in one.changed


@pytest.mark.parametrize(
    ("given", "who"),
    [
        ({"toolchain": {**TOOLCHAIN, "tilelang": "0.1.16"}}, "the compiler"),
        ({"commit": "b" * 40}, "us"),
        ({"commit": "b" * 40, "toolchain": {**TOOLCHAIN, "tilelang": "0.1.16"}}, "the compiler or us"),
    ],
)
def test_slower_with_other_code_is_ours_or_the_compilers(given: dict[str, object], who: str) -> None:
    (one,) = found(slow_night(4, facts="new", **given), night(3))
    assert one.changed[-1].startswith(f"other code (SASS): {who}: registers 168 -> 255")
    assert "--by latency" in one.bisect


def test_slower_without_facts_says_so() -> None:
    (one,) = found(slow_night(4, facts=""), night(3))
    assert one.changed[-1].startswith("whether its code changed is not known")


@pytest.mark.parametrize(
    ("verdict", "kind"), [("inconclusive", "unsettled"), ("faster", "stale"), ("new", "other")]
)
def test_other_verdicts_of_latency(verdict: str, kind: str) -> None:
    (one,) = found(slow_night(4, verdict), night(3))
    assert one.kind == kind


def test_wrong_kernel_in_the_latency_stage_is_wrong() -> None:
    (one,) = found(night(4, SLOW), night(3))
    assert one.kind == "wrong"


def test_worst_come_first_and_other_tests_stand_for_themselves() -> None:
    harness = Failure("correctness", "tests/test_x.py::test_y", words="boom", repeat="pytest y")
    code = Failure(
        "codegen", f"tests/test_codegen.py::test_facts[{ROW}-sm_80]", "matmul", "square-fp16", "spills"
    )
    kinds = [one.kind for one in found(night(4, harness, code, wrong()), night(3))]
    assert kinds == ["wrong", "code", "other"]


def test_whose_a_drift_is() -> None:
    drifts = [Drift(row, "slope", 10, 0.01, 0.09, 1e-7) for row in ("ours", "machine", "alone")]
    lines = drift_lines(drifts, drifts[:1], {"ours", "machine"})
    assert [line.rpartition("; ")[2] for line in lines] == [
        "so does its time over the vendor's: it is the kernel",
        "its time over the vendor's does not show it: rather the machine",
        "there is no vendor's time to tell the kernel from the machine",
    ]
    assert lines[0].startswith(
        "ours becomes slower: +9.0 % (+1.00 % a night over 10 nights; by chance once in 1e+07"
    )
