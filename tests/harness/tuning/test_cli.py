"""`tilecheck tune`: its options, what it prints, and its exit codes; with a bench of made-up times."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.harness.tuning.fakes import OTHER_TYPES, SOURCE, FakeBench, facts, goal, module_in
from tilecheck import environment
from tilecheck.arches import arch
from tilecheck.cli import main
from tilecheck.codegen import NoToolchain
from tilecheck.launch import compile_target
from tilecheck.spec import Case, KernelSpec
from tilecheck.tuning import lookup, machine, plot, tune, winners
from tilecheck.tuning.explore import Effect
from tilecheck.tuning.outcomes import BenchError, Failure
from tilecheck.tuning.tune import Goal
from tilecheck.tuning.winners import read_winners

GPU = environment.Machine(torch="2.11", driver="580", gpu="NVIDIA H200", capability=(9, 0), compiler=True)
INI = "[pytest]\npythonpath = .\ntilecheck_specs = copy_to_tune\n"


class Entered(FakeBench):
    def __enter__(self) -> "Entered":
        return self

    def __exit__(self, *_: object) -> None: ...


def smooth(tile: int, stages: int, threads: int) -> float | Failure:
    return Failure("wrong", "the tail") if stages == 3 else 1e-4 * (1 + abs(tile - 128) / 128 + stages)


def interrupting(bench: Entered, measured: int, signum: signal.Signals) -> Callable[[Any], None]:
    """Sends this process a signal once so many are measured, and waits until it is heeded."""

    def interrupt(_: Any) -> None:
        if len(bench.measured) == measured:
            os.kill(os.getpid(), signum)
            bench._stopped.wait(10)

    return interrupt


def goal_here(spec: KernelSpec, case: Case, older: str | None) -> Goal:
    own = goal(spec, case.id)
    if older is None:
        return own
    return replace(own, arch=replace(arch(older), gpu=own.arch.gpu), target=compile_target(9, 0, older))


Command = Callable[..., int]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pytest.ini").write_text(INI)
    module_in(root)
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(root)
    monkeypatch.setattr(environment, "machine", lambda: GPU)
    monkeypatch.setattr(machine, "goal_here", goal_here)
    monkeypatch.setattr(machine, "goal_for", lambda spec, case, arch: replace(goal(spec, case.id), arch=arch))
    return root


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Entered:
    made = Entered(smooth)
    monkeypatch.setattr(machine, "bench_for", lambda *_: made)
    return made


def test_a_search_prints_its_report_and_stores_the_winner(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "copy", "--jobs", "1"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("copy-long on NVIDIA H200 (sm_90a)\nspace: 4 x 4 = 16 combinations")
    assert "stored in schedules.json" in out and "knob" in out
    assert re.search(r"copy-long: 14 of 14 schedules, after .* s, best 200.0 us by t128-s1\n", err)
    (entry,) = read_winners(project / "schedules.json")
    assert entry.schedule == {"tile": 128, "stages": 1, "threads": 128}


def test_values_of_any_type_that_can_be_stored_come_back_as_they_were(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    def best_with_others(**values: Any) -> float:
        differ = [values["warps"] == (2, 2), values["chunk"] is None, values["share"] == 1]
        return 1e-4 * (values["tile"] / 32 + values["stages"] + sum(differ))

    module_in(project, OTHER_TYPES)
    bench.time = best_with_others
    assert main(["tune", "copy"]) == 0
    assert "stored in schedules.json" in capsys.readouterr().out
    spec: KernelSpec = sys.modules["copy_to_tune"].SPEC
    best = spec.schedule_for(spec.case("long"), goal(spec).arch)
    found = (best.tile, best.stages, best.warps, best.chunk, best.share, best.elements)
    assert found == (32, 1, (1, 4), 4, 0.5, 32)
    # From the journal, too.
    assert main(["tune", "copy"]) == 0
    told = capsys.readouterr().out
    assert "warps=(1, 4)" in told and "0 of them now" in told
    assert re.search(r"\(1, 4\) +300.0 us|\(1, 4\) +200.0 us", told)


@pytest.mark.parametrize(
    "field", ["stage: enum.Enum = Stage.A", "stage: int = Level.A", "stage: frozenset = frozenset((1,))"]
)
def test_values_that_cannot_be_stored_are_refused_in_one_line(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str], field: str
) -> None:
    kinds = """import enum


    class Stage(enum.Enum):
        A = 1


    class Level(enum.IntEnum):
        A = 1


    @dataclass(frozen=True)"""
    module_in(
        project,
        SOURCE.replace("@dataclass(frozen=True)", kinds).replace(
            "threads: int = 128", f"threads: int = 128\n        {field}"
        ),
    )
    assert main(["tune", "copy"]) == 2
    err = capsys.readouterr().err
    assert "tilecheck: copy-long: kernel 'copy': stage=" in err and err.count("\n") == 1
    assert "of its schedule cannot be kept in schedules.json; let it be a number, a text" in err


def test_a_dry_run_stores_nothing(project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "copy", "--case", "long", "--dry-run", "--most", "5"]) == 0
    assert not (project / "schedules.json").exists()
    assert len(bench.compiled) == 5
    assert "; 5 of them now" in capsys.readouterr().out


def test_data_for_plots_are_written(project: Path, bench: Entered, tmp_path: Path) -> None:
    assert (
        main(["tune", "copy", "--case", "long", "--case", "far", "--json", str(tmp_path / "out.json")]) == 0
    )
    data = json.loads((tmp_path / "out.json").read_text())
    assert [(row["case"], row["gpu"], len(row["outcomes"])) for row in data] == [
        ("long", "nvidia-h200", 14),
        ("far", "nvidia-h200", 14),
    ]


def test_how_knobs_move_latency_is_drawn(project: Path, bench: Entered, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert main(["tune", "copy", "--plot", str(tmp_path / "knobs.svg")]) == 0
    drawn = ElementTree.parse(tmp_path / "knobs.svg")
    texts = {"".join(e.itertext()) for e in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"tile", "stages", "32", "256", "copy, long", "alone", "best with it"} <= texts
    assert "threads" not in texts  # of one value


def test_a_knob_of_one_value_is_drawn_where_there_is_no_other() -> None:
    pytest.importorskip("matplotlib")
    one = plot.svg(
        {"copy, long": [Effect("tile", 32, 1e-4, 1e-4, 1, 0), Effect("tile", 64, None, None, 0, 1)]}
    )
    assert "tile" in one and "64" in one
    with pytest.raises(ValueError, match="no schedule has a time"):
        plot.svg({"copy, long": []})


def test_nothing_to_draw_is_said_before_the_search(
    project: Path, bench: Entered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "machine", lambda: replace(GPU, gpu=None, capability=None))
    monkeypatch.setattr(environment, "why_no_gpu", lambda _: "no NVIDIA driver")
    assert main(["tune", "copy", "--plot", "knobs.svg"]) == 2
    assert capsys.readouterr().err.count("--plot knobs.svg: nothing is timed here") == 1
    assert not bench.compiled
    assert not Path("knobs.svg").exists()


def test_for_another_architecture_nothing_is_timed(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.made = lambda candidate: facts(registers=77)
    assert main(["tune", "copy", "--arch", "sm_100a", "--most", "4"]) == 0
    out = capsys.readouterr().out
    assert "copy-long for sm_100a" in out and "nothing was timed: this GPU is sm_90a" in out and "77" in out
    assert bench.measured == [] and not (project / "schedules.json").exists()


def test_code_of_an_older_architecture_is_timed_and_called_so(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "copy", "--arch", "sm_80"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "copy-long on NVIDIA H200 (sm_80)"
    assert lines[1] == "code for sm_80, translated for this GPU: one of its own has other times"
    assert bench.measured and not (project / "schedules.json").exists()


def test_several_architectures_are_shown_side_by_side(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench.made = lambda candidate: facts(registers=len(candidate.id))
    assert (
        main(["tune", "copy", "--arch", "sm_80", "sm_90a", "--most", "3", "--json", str(tmp_path / "o")]) == 0
    )
    out = capsys.readouterr().out
    assert out.count("nothing was timed") == 2
    head, *rows = (line.split() for line in out[out.rindex("\nschedule") :].strip().splitlines())
    assert head[:4] == ["schedule", "arch", "threads", "regs"]
    assert [row[-10 if len(row) == 10 else 1] for row in rows] == ["sm_80", "sm_90a"] * 3
    first, second = json.loads((tmp_path / "o").read_text())
    values = [sorted(str(row["values"]) for row in each["compiled"]) for each in (first, second)]
    assert values[0] == values[1] and len(values[0]) == 3


def test_without_a_gpu_nothing_is_timed_and_the_reason_is_there(
    project: Path, bench: Entered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "machine", lambda: environment.Machine(torch="2.11", no_driver="none"))
    bench.made = lambda candidate: facts()
    assert main(["tune", "copy"]) == 0
    told = capsys.readouterr()
    assert "nothing was timed: no NVIDIA driver" in told.out
    assert "so that 16 schedules are compiled; --most N takes more" in told.err
    assert main(["tune", "copy", "--budget", "10"]) == 0
    assert "compiled, and --budget can only end that early; --most N takes more" in capsys.readouterr().err
    assert main(["tune", "copy", "--budget", "10", "--most", "4"]) == 0
    told = capsys.readouterr()
    assert "compiled: 4 of the likeliest" in told.out and "--most N" not in told.err


def test_exit_codes(project: Path, bench: Entered) -> None:
    bench.time = lambda **_: Failure("wrong", "all")
    assert main(["tune", "copy"]) == 1
    bench.made = lambda candidate: Failure("does not compile", "no")
    assert main(["tune", "copy", "--arch", "sm_80"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no kernel 'nothing'"),
        (["copy", "--case", "lonh"], "has no case 'lonh'; did you mean long"),
        (["copy", "--arch", "sm_81"], "no architecture 'sm_81'"),
        (["copy", "--arch", "sm_80", "sm_91"], "no architecture 'sm_91'"),
        (["copy", "--budget", "-1"], "'-1' is no number of minutes"),
        (["copy", "--most", "0"], "'0' is no number of schedules"),
    ],
)
def test_wrong_usage_is_one_line(
    project: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--json", "loop"], "--json loop: Too many levels of symbolic links; name another file"),
        (["--json", "n" * 300], "File name too long; name another file"),
        (["--plot", "copy_to_tune.py/a.svg"], "copy_to_tune.py is no folder; name another file"),
        (["--json", "a", "--plot", "./a"], "--json and --plot are both a; name two files"),
        (["--json", "link", "--plot", "a"], "--json and --plot are both a; name two files"),
    ],
)
def test_what_cannot_be_written_is_said_before_the_search(
    project: Path,
    bench: Entered,
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "loop").symlink_to("loop")
    (project / "link").symlink_to("a")
    assert main(["tune", "copy", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert not bench.compiled


def test_outcomes_may_go_to_a_pipe(project: Path, bench: Entered) -> None:
    os.mkfifo(project / "pipe")
    reading = os.open(project / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert main(["tune", "copy", "--most", "2", "--json", "pipe"]) == 0
    assert json.loads(os.read(reading, 1 << 16))[0]["kernel"] == "copy"
    os.close(reading)


def test_winners_that_cannot_be_written_take_nothing_else_along(
    project: Path, bench: Entered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(winners, "replace", full)
        assert main(["tune", "copy", "--case", "long", "--case", "far", "--json", "all.json"]) == 2
    out, err = capsys.readouterr()
    assert out.count(": kept (") == 2 and out.count("; not stored") == 2 and "knob" in out
    said = f"copy-long: {project}/schedules.json cannot be written: No space left on device; copy-far: "
    assert f"tilecheck: {said}" in err
    assert [row["case"] for row in json.loads(Path("all.json").read_text())] == ["long", "far"]
    assert main(["tune", "copy", "--case", "long", "--case", "far"]) == 0
    assert len(read_winners(project / "schedules.json")) == 2


def test_a_folder_of_kernels_that_cannot_be_written_is_told_before_the_search(
    project: Path, bench: Entered, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tune.os, "access", lambda path, _: str(path) != str(project))
    assert main(["tune", "copy"]) == 2
    err = capsys.readouterr().err
    assert "schedules.json cannot be written: search with --dry-run" in err and err.count("\n") == 1
    assert bench.compiled == []
    assert main(["tune", "copy", "--dry-run"]) == 0


def test_outcomes_of_the_cases_before_are_written_however_it_ends(project: Path, bench: Entered) -> None:
    def gone(_: Any) -> None:
        if len(bench.measured) == 20:
            raise BenchError("the GPU is gone")

    bench.on_measure = gone
    arguments = ["tune", "copy", "--case", "long", "--case", "far", "--json", "all.json"]
    assert main(arguments) == 2
    assert [len(row["outcomes"]) for row in json.loads(Path("all.json").read_text())] == [14]
    bench.on_measure = interrupting(bench, 24, signal.SIGINT)
    assert main(arguments) == 130
    first, second = json.loads(Path("all.json").read_text())
    assert len(first["outcomes"]) == 14 and 0 < len(second["outcomes"]) < 14


@pytest.mark.parametrize("cache", ["/proc/none", "/dev/null"])
@pytest.mark.parametrize("arch", [[], ["--arch", "sm_80", "sm_90a"]])
def test_a_cache_that_cannot_be_made_is_one_line(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cache: str,
    arch: list[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    assert main(["tune", "copy", "--most", "2", *arch]) == 2
    err = capsys.readouterr().err
    assert "cannot be made" in err and "set XDG_CACHE_HOME" in err and err.count("\n") == 1


FAULTY = {
    "legal raised ZeroDivisionError: division by zero (copy_to_tune.py:": (
        "        if schedule.tile > N:",
        "        if schedule.stages == 1:\n            1 / 0\n        if schedule.tile > N:",
    ),
    "legal raised AssertionError: no message (": (
        "        if schedule.tile > N:",
        "        assert schedule.stages != 1\n        if schedule.tile > N:",
    ),
    "tiling raised ZeroDivisionError: ": ("return Tiling(-(-N // tile)", "return Tiling(1 // (stages - 1)"),
    "shared_memory raised TypeError: ": ("tile * stages * 400", "None if stages == 1 else 1"),
}


@pytest.mark.parametrize("arch", [[], ["--arch", "sm_80"]])
@pytest.mark.parametrize("message", FAULTY)
def test_a_fault_of_the_specs_own_functions_is_one_line(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str], message: str, arch: list[str]
) -> None:
    old, new = FAULTY[message]
    assert old in SOURCE
    module_in(project, SOURCE.replace(old, new))
    assert main(["tune", "copy", *arch, "--most", "9"]) == 2
    *_, told = capsys.readouterr().err.splitlines()
    assert told.startswith("tilecheck: copy-long: kernel 'copy'") and message in told
    assert re.search(r"for Schedule\(tile=\d+, stages=1, threads=128\)", told)
    assert bench.compiled == []


@pytest.mark.parametrize("found", [GPU, environment.Machine(no_driver="none")])
@pytest.mark.parametrize("asked", [["sm_80"], ["sm_90a", "sm_80"]])
def test_an_architecture_that_the_kernel_is_not_for_is_refused(
    project: Path,
    found: environment.Machine,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hopper_alone = 'tuning_cases=("long",), arches=("sm_90a",)'
    module_in(project, SOURCE.replace('tuning_cases=("long",)', hopper_alone))
    monkeypatch.setattr(environment, "machine", lambda: found)
    assert main(["tune", "copy", "--arch", *asked]) == 2
    err = capsys.readouterr().err
    assert "kernel 'copy' is not for sm_80, but for sm_90a" in err and err.count("\n") == 1


def test_a_kernel_that_is_not_for_this_gpu_is_not_tuned_for_it(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    ampere = 'tuning_cases=("long",), arches=("sm_80", "sm_89")'
    module_in(project, SOURCE.replace('tuning_cases=("long",)', ampere))
    assert main(["tune", "copy"]) == 2
    err = capsys.readouterr().err
    told = "kernel 'copy' is not for sm_90a, as this GPU is, but for sm_80, sm_89; see --arch\n"
    assert err == f"tilecheck: {told}"
    assert bench.compiled == []
    assert main(["tune", "copy", "--arch", "sm_80"]) == 0  # translated
    assert not (project / "schedules.json").exists()


@pytest.mark.parametrize("gone", [True, False])
def test_a_kernel_that_changes_during_its_search_has_no_winner(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str], gone: bool
) -> None:
    """It would be stored as one of the new source, which was never timed."""
    path = project / "copy_to_tune.py"

    def edit(_: Any) -> None:
        if gone:
            path.unlink(missing_ok=True)
        else:
            path.write_text(path.read_text().replace("if b * tile + i < last", "if b * tile + i < N"))

    bench.on_measure = edit
    assert main(["tune", "copy"]) == 2
    out, err = capsys.readouterr()
    assert ": kept (" in out and "; not stored" in out
    told = "tilecheck: copy-long: the kernel's file was changed during the search, so that nothing is stored"
    assert err.splitlines()[-1] == f"{told}: search again"
    assert not (project / "schedules.json").exists()


def test_an_entry_that_is_out_of_date_is_one_line(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", "copy"]) == 0
    module_in(project, SOURCE.replace("if b * tile + i < last", "if b * tile + i < N"))
    lookup._warn.cache_clear()
    capsys.readouterr()
    assert main(["tune", "copy", "--case", "long", "--dry-run"]) == 0
    told, *progress = capsys.readouterr().err.splitlines()
    assert told.startswith(
        f"tilecheck: {project}/schedules.json: nvidia-h200, copy, long: not used: out of date"
    )
    assert all(line.startswith("copy-long: ") for line in progress)


def test_a_spoilt_file_is_refused_in_one_line(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "schedules.json").write_text("{}")
    assert main(["tune", "copy"]) == 2
    err = capsys.readouterr().err
    assert "schedules.json is no file of schedules" in err and err.count("\n") == 1
    assert bench.compiled == []


def test_what_breaks_the_bench_is_one_line(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str]
) -> None:
    def gone(_: Any) -> None:
        raise BenchError("the GPU is gone")

    bench.on_measure = gone
    assert main(["tune", "copy"]) == 2
    assert "copy-long: the GPU is gone" in capsys.readouterr().err
    bench.made = None  # no compiler
    assert main(["tune", "copy", "--arch", "sm_100a"]) == 2
    assert "copy-long: no nvcc" in capsys.readouterr().err
    with pytest.raises(NoToolchain):
        bench.facts(None)  # type: ignore[arg-type]


def test_a_kernel_without_a_space_is_told_so(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = SOURCE.replace("        tuning=", "        grid=").replace(
        '        tuning_cases=("long",),\n', ""
    )
    spec: KernelSpec = module_in(project, plain).SPEC
    assert not spec.tuning
    assert main(["tune", "copy"]) == 2
    assert "kernel 'copy' has nothing to tune" in capsys.readouterr().err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_with_130_and_a_report(
    project: Path, bench: Entered, capsys: pytest.CaptureFixture[str], signum: signal.Signals
) -> None:
    bench.on_measure = interrupting(bench, 2, signum)
    assert main(["tune", "copy"]) == 130
    assert len(bench.measured) == 2  # and not the rest of the batch
    assert "the same command goes on where this stopped" in capsys.readouterr().out
    done = len(bench.measured)
    bench.reopen()
    bench.on_measure = lambda _: None
    assert main(["tune", "copy"]) == 0
    assert len(bench.measured) - done < 14
