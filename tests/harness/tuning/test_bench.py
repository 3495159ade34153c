"""Candidates in processes of their own: one that hangs, dies or is wrong does no harm to the next.

The GPU is a stand-in: kernels run on the simulator, and times are made up; processes and oracle are real.
"""

import json
import os
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.tuning.fakes import OTHER_TYPES, SOURCE, Seen, facts, goal, module_in
from tilecheck import codegen, launch
from tilecheck.codegen import Toolchain
from tilecheck.spec import KernelSpec
from tilecheck.tuning import bench as bench_module
from tilecheck.tuning.bench import ProcessBench
from tilecheck.tuning.child import Child, Died
from tilecheck.tuning.outcomes import BenchError, Failure, Timing
from tilecheck.tuning.space import Candidate, schedule_of, space_of
from tilecheck.tuning.tune import tune
from tilecheck.tuning.winners import read_winners
from tilecheck.tuning.worker import Task, Worker

STAND = """

    import os
    import sys
    import time

    from tilecheck import launch
    from tilecheck.arches import ARCHES
    from tilecheck.device import Simulator
    from tilecheck.latency.timing import Samples, TimingError
    from tilecheck.tuning import worker


    def compile_program(program, target):
        tile, threads = program.schedule.tile, program.schedule.threads
        with open(__file__ + ".compiled", "a") as told:
            told.write(f"{tile} {threads}\\n")
        if tile == 32 and threads == 64:
            raise launch.CompileError("copy-long: does not compile for sm_90a: no such instruction")
        if tile == 32 and threads == 96:
            time.sleep(1000)


    class Stand:
        device = Simulator(ARCHES["sm_90a"])

        def samples(self, programs, seed, budget):
            found = {}
            for name, program in programs.items():
                threads = program.schedule.threads
                if threads == 160:
                    time.sleep(1000)
                if threads == 192:
                    print("last words", flush=True)
                    os.abort()
                if threads == 224:
                    raise TimingError("the GPU waits for the CPU")
                found[name] = Samples((program.schedule.tile * 1e-6,) * 3, "events", 1980.0)
            return found

        def impossible(self, program, seconds):
            return "7 TB/s are over the peak of 4.8" if program.schedule.threads == 256 else None


    launch.compile_program = compile_program
    worker.open_stand = lambda target: Stand()
"""


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSpec:
    monkeypatch.syspath_prepend(str(tmp_path))
    found: KernelSpec = module_in(tmp_path, SOURCE).SPEC  # here without the stand-in
    return found


def processes(spec: KernelSpec, tmp_path: Path, stand: str = STAND, compilers: int = 1) -> ProcessBench:
    module_in_children = tmp_path / "copy_to_tune.py"
    module_in_children.write_text(textwrap.dedent(SOURCE) + textwrap.dedent(stand))
    found = goal(spec)
    task = Task(
        ("copy_to_tune",), "copy", "long", "sm_90a", "nvidia-h200", dict(found.target), nvcc="", seed=0
    )
    return ProcessBench(task, compilers, tmp_path / "kernels")


def candidate(spec: KernelSpec, tile: int, stages: int = 2, threads: int = 128) -> Candidate:
    like = spec.own_schedule(spec.case("long"), goal(spec).arch)
    values = {"tile": tile, "stages": stages, "threads": threads}
    return Candidate(f"t{tile}-s{stages}-{threads}", schedule_of(values, like))


def test_right_and_wrong_schedules_one_after_the_other(spec: KernelSpec, tmp_path: Path) -> None:
    with processes(spec, tmp_path) as bench:
        assert bench.compile(candidate(spec, 64)) is None
        assert bench.measure(candidate(spec, 64)) == Timing(6.4e-05, 6.4e-05, 6.4e-05, 3, "events", 1980.0)
        # Three stages lose the tail, and are the fastest of all.
        wrong = bench.measure(candidate(spec, 32, stages=3))
        assert isinstance(wrong, Failure) and wrong.kind == "wrong"
        assert "never written" in wrong.reason
        impossible = bench.measure(candidate(spec, 64, threads=256))
        assert impossible == Failure("wrong", "faster than the hardware: 7 TB/s are over the peak of 4.8")
        untimed = bench.measure(candidate(spec, 64, threads=224))
        assert untimed == Failure("not timed", "the GPU waits for the CPU")
        assert isinstance(bench.measure(candidate(spec, 128)), Timing)


def test_a_candidate_that_hangs_or_dies_does_not_disturb_the_next(
    spec: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with processes(spec, tmp_path) as bench:
        assert isinstance(bench.measure(candidate(spec, 64)), Timing)
        monkeypatch.setattr(bench_module, "MEASURE_SECONDS", 3.0)
        start = time.monotonic()
        assert bench.measure(candidate(spec, 64, threads=160)) == Failure(
            "timeout", "no end of the launch within 3 s"
        )
        assert time.monotonic() - start < 60
        monkeypatch.setattr(bench_module, "MEASURE_SECONDS", 60.0)
        assert isinstance(bench.measure(candidate(spec, 64)), Timing)
        died = bench.measure(candidate(spec, 64, threads=192))
        assert isinstance(died, Failure) and died.kind == "died"
        assert "SIGABRT" in died.reason and "last words" in died.reason
        assert isinstance(bench.measure(candidate(spec, 64)), Timing)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("raise RuntimeError('no such layout')", "RuntimeError: no such layout"),
        ("assert N % tile == 1", "AssertionError: no message"),
        ("raise SystemExit('not this one')", "SystemExit: not this one"),
        ("input()", "EOFError: EOF when reading a line"),
    ],
)
def test_a_program_that_cannot_be_traced_costs_no_process(
    spec: KernelSpec, tmp_path: Path, fault: str, reason: str
) -> None:
    with processes(spec, tmp_path) as bench:
        path = tmp_path / "copy_to_tune.py"
        old = "    last = N //"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, f"    if tile == 32:\n        {fault}\n{old}"))
        assert bench.compile(candidate(spec, 64)) is None
        process = bench._compilers[0]._process
        found = bench.compile(candidate(spec, 32))
        assert found == Failure("does not compile", f"the program cannot be traced: {reason}")
        assert bench.compile(candidate(spec, 128)) is None
        assert bench._compilers[0]._process is process


def test_compile_errors_and_endless_compiles_are_told(
    spec: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with processes(spec, tmp_path) as bench:
        found = bench.compile(candidate(spec, 32, threads=64))
        assert found == Failure(
            "does not compile", "copy-long: does not compile for sm_90a: no such instruction"
        )
        illegal = bench.compile(candidate(spec, 256, stages=4))
        assert isinstance(illegal, Failure) and "tile=256 times stages=4 is over 512" in illegal.reason
        monkeypatch.setattr(bench_module, "COMPILE_SECONDS", 2.0)
        assert bench.compile(candidate(spec, 32, threads=96)) == Failure(
            "timeout", "no end of the compile within 2 s"
        )
        monkeypatch.setattr(bench_module, "COMPILE_SECONDS", 60.0)
        assert bench.compile(candidate(spec, 64)) is None


def test_finalists_are_timed_in_turn_and_checked_with_other_inputs(spec: KernelSpec, tmp_path: Path) -> None:
    with processes(spec, tmp_path) as bench:
        turns, failed = bench.in_turn(
            [candidate(spec, 64, stages=3), candidate(spec, 64), candidate(spec, 128)], 2, 0.1, (1, 2)
        )
        assert [{name: t.median for name, t in turn.items()} for turn in turns] == [
            {"t64-s2-128": 64e-6, "t128-s2-128": 128e-6}
        ] * 2
        assert list(failed) == ["t64-s3-128"] and failed["t64-s3-128"].kind == "wrong"


def test_finalists_that_hang_in_turn_end_the_search_and_blame_none(
    spec: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_module, "IN_TURN_SECONDS", 2.0)
    with (
        processes(spec, tmp_path) as bench,
        pytest.raises(BenchError, match="t64-s2-128, t64-s2-160 in turn: timeout"),
    ):
        bench.in_turn([candidate(spec, 64), candidate(spec, 64, threads=160)], 2, 0.1, (1,))


def test_a_machine_without_a_gpu_is_told_and_blames_no_schedule(spec: KernelSpec, tmp_path: Path) -> None:
    without = """
        from tilecheck.tuning import worker

        def no_gpu(target):
            raise RuntimeError("no CUDA-capable device is detected")

        worker.open_stand = no_gpu
    """
    with processes(spec, tmp_path, without) as bench:
        with pytest.raises(BenchError, match=r"no candidate can be timed: .*no CUDA-capable device"):
            bench.measure(candidate(spec, 64))
        with pytest.raises(BenchError):
            bench.compile(candidate(spec, 64))


def test_a_process_that_does_not_start_blames_no_schedule(spec: KernelSpec, tmp_path: Path) -> None:
    with (
        processes(spec, tmp_path, "raise SystemExit('no such library')") as bench,
        pytest.raises(
            BenchError,
            match=r"does not start: ended with exit code 1: cannot import 'copy_to_tune': .*no such library",
        ),
    ):
        bench.compile(candidate(spec, 64))


def test_the_process_that_times_starts_beside_the_compiles(spec: KernelSpec, tmp_path: Path) -> None:
    opened = textwrap.dedent(STAND) + textwrap.dedent(f"""
        def open_stand(target):
            with open({str(tmp_path / "opened")!r}, "a") as file:
                print(os.getpid(), file=file)
            return Stand()

        worker.open_stand = open_stand
    """)
    with processes(spec, tmp_path, opened) as bench:
        bench.prepare()
        deadline = time.monotonic() + 60
        while not (tmp_path / "opened").exists():  # nobody has asked for a time yet
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert isinstance(bench.measure(candidate(spec, 64)), Timing)
    assert len((tmp_path / "opened").read_text().split()) == 1


def test_a_process_that_cannot_be_prepared_is_told_to_who_asks(spec: KernelSpec, tmp_path: Path) -> None:
    with processes(spec, tmp_path, "raise SystemExit('no such library')") as bench:
        bench.prepare()
        with pytest.raises(
            BenchError,
            match=r"does not start: ended with exit code 1: cannot import 'copy_to_tune': .*no such library",
        ):
            bench.measure(candidate(spec, 64))


@pytest.mark.parametrize("again", [False, True])
def test_stopped_while_it_is_prepared(spec: KernelSpec, tmp_path: Path, again: bool) -> None:
    start = time.monotonic()
    with processes(spec, tmp_path) as bench:
        bench.prepare()
        bench.stop()
        if again:
            bench.reopen()
            assert isinstance(bench.measure(candidate(spec, 64)), Timing)
    assert time.monotonic() - start < 60


def test_who_is_asked_first_after_a_stop_does_not_pay_for_it(spec: KernelSpec, tmp_path: Path) -> None:
    """A search whose time is over stops the processes; the confirmation asks anew, of the default first."""
    usual, other = candidate(spec, 64), candidate(spec, 128)
    with processes(spec, tmp_path) as bench:
        assert isinstance(bench.measure(usual), Timing)
        assert bench.compile(usual) is None
        bench.stop()
        bench.reopen()
        turns, failed = bench.in_turn([usual, other], 2, 0.1, [1])
        assert failed == {}
        assert [sorted(turn) for turn in turns] == [sorted([usual.id, other.id])] * 2
        assert bench.compile(usual) is None


def test_tilelangs_cache_of_the_processes_is_the_private_one(
    spec: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", "/somebody/elses")
    says = """
        import os
        from tilecheck import launch

        def compile_program(program, target):
            raise launch.CompileError(os.environ["TILELANG_CACHE_DIR"])

        launch.compile_program = compile_program
    """
    with processes(spec, tmp_path, says) as bench:
        found = bench.compile(candidate(spec, 64))
        assert found == Failure("does not compile", str(tmp_path / "kernels"))


def test_no_process_outlives_the_bench(spec: KernelSpec, tmp_path: Path) -> None:
    with processes(spec, tmp_path) as bench:
        assert bench.compile(candidate(spec, 64)) is None
        process = bench._compilers[0]._process
        assert process is not None
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)


def test_a_child_that_is_killed_from_elsewhere_is_told(tmp_path: Path) -> None:
    child = Child("tilecheck.tuning.serve", "{}")
    with pytest.raises(Died, match="ended with exit code 1"):
        child.ask({"do": "open"}, 60)
    child.end()


@pytest.mark.parametrize(
    ("changed", "nvcc", "reason"),
    [
        ({"registers": 255, "threads": 512}, "13.0", "a block takes 131072 registers of 65536"),
        ({"dynamic_shared": 300_000}, "13.0", "a block takes 300000 bytes of shared memory of 232448"),
        ({"registers": 255, "threads": 512}, "13.1", None),  # facts of another compiler
        ({"registers": 64}, "13.0", None),
        (None, "13.0", None),  # never compiled before
    ],
)
def test_known_facts_spare_a_compile(
    spec: KernelSpec,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, int] | None,
    nvcc: str,
    reason: str | None,
) -> None:
    compiled: list[Any] = []
    found = Toolchain(Path("nvcc"), Path("ptxas"), Path("nvdisasm"), "wheels", {"nvcc": "13.0"})
    monkeypatch.setattr(codegen, "find_toolchain", lambda: found)
    monkeypatch.setattr(codegen, "kept_facts", lambda *_: None if changed is None else facts(**changed))
    monkeypatch.setattr(launch, "compile_program", lambda program, target: compiled.append(program))
    task = Task(("copy_to_tune",), "copy", "long", "sm_90a", "nvidia-h200", {}, nvcc, seed=0)
    answer = Worker(task).answer({"do": "compile", "values": candidate(spec, 64).values})
    assert answer == ({} if reason is None else {"failure": {"kind": "does not fit", "reason": reason}})
    assert len(compiled) == (reason is None)


def test_schedules_of_any_type_reach_the_worker(
    spec: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(launch, "compile_program", lambda program, target: made.append(program.schedule))
    found = goal(module_in(tmp_path, OTHER_TYPES).SPEC)
    task = Task(("copy_to_tune",), "copy", "long", "sm_90a", "nvidia-h200", {}, nvcc="", seed=0)
    worker, candidates = Worker(task), space_of(found.spec, found.case, found.arch).candidates
    for each in candidates:
        assert worker.answer(json.loads(json.dumps({"do": "compile", "values": each.values}))) == {}
    assert made == [each.schedule for each in candidates] and len(made) > 50


def compiled(tmp_path: Path) -> list[str]:
    """Which candidates were compiled, as tile and threads."""
    told = tmp_path / "copy_to_tune.py.compiled"
    return sorted(told.read_text().splitlines()) if told.exists() else []


def test_what_was_compiled_ahead_is_not_compiled_again(spec: KernelSpec, tmp_path: Path) -> None:
    with processes(spec, tmp_path, compilers=2) as bench:
        bench.compile_ahead([candidate(spec, 64), candidate(spec, 32, threads=64)])
        bench.compile_ahead([candidate(spec, 64), candidate(spec, 128)])
        assert isinstance(bench.measure(candidate(spec, 256)), Timing)  # meanwhile
        assert bench.compile(candidate(spec, 64)) is None
        failure = bench.compile(candidate(spec, 32, threads=64))
        assert isinstance(failure, Failure) and failure.kind == "does not compile"
        assert bench.compile(candidate(spec, 128)) is None
    assert compiled(tmp_path) == ["128 128", "32 64", "64 128"]


def test_what_is_compiled_ahead_does_not_outlive_the_search(spec: KernelSpec, tmp_path: Path) -> None:
    with processes(spec, tmp_path) as bench:
        hanging = candidate(spec, 32, threads=96)
        bench.compile_ahead([hanging, candidate(spec, 64)])
        deadline = time.monotonic() + 60
        while not compiled(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
        bench.reopen()
        # Nothing goes on beside the confirmation, and what is asked for again is compiled anew.
        assert isinstance(bench.measure(candidate(spec, 128)), Timing)
        assert compiled(tmp_path) == ["32 96"]
        assert bench.compile(candidate(spec, 64)) is None
    assert compiled(tmp_path) == ["32 96", "64 128"]


def test_a_whole_search_in_processes_survives_every_kind_of_candidate(
    spec: KernelSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_module, "MEASURE_SECONDS", 4.0)
    # 160 threads hang; three stages are wrong, and fast.
    narrow = replace(
        spec, tuning={"tile": (32, 64), "stages": (2, 3), "threads": (128, 160)}, tuning_cases=()
    )
    (tmp_path / "journals").mkdir()
    with processes(spec, tmp_path) as bench:
        found = tune(
            goal(narrow),
            bench,
            journals=tmp_path / "journals",
            winners=tmp_path / "schedules.json",
            progress=lambda name, total: Seen(),
            batch=5,
        )
    kinds = {
        (o.values["tile"], o.values["stages"], o.values["threads"]): o.kind for o in found.found.outcomes
    }
    assert kinds == {
        **{(tile, 2, 128): "timed" for tile in (32, 64)},
        **{(tile, 2, 160): "timeout" for tile in (32, 64)},
        **{(tile, 3, threads): "wrong" for tile in (32, 64) for threads in (128, 160)},
    }
    (entry,) = read_winners(tmp_path / "schedules.json")
    assert entry.schedule == {"tile": 32, "stages": 2, "threads": 128} and entry.default_median == 64e-6
