"""The search through TileLang's AutoTuner, with fake compiles and times: what it finds and survives."""

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.harness.tuning.fakes import FakeBench, Seen, goal, module_in, timing
from tilecheck.spec import KernelSpec
from tilecheck.tuning.autotuner import run_batch
from tilecheck.tuning.journal import Journal
from tilecheck.tuning.outcomes import BenchError, Failure, Timing
from tilecheck.tuning.ranking import neighbours
from tilecheck.tuning.search import Found, Search
from tilecheck.tuning.space import Candidate, Space, space_of
from tilecheck.tuning.tune import in_order

TARGET = {"kind": "cuda", "arch": "sm_90a"}


@pytest.fixture
def spec(tmp_path: Path) -> KernelSpec:
    found: KernelSpec = module_in(tmp_path).SPEC
    return found


@pytest.fixture
def space(spec: KernelSpec) -> Space:
    return space_of(spec, spec.case("long"), goal(spec).arch)


def smooth(tile: int, stages: int, threads: int) -> float | Failure:
    """Best at 128 and 3."""
    return 1e-4 * (1 + abs(tile - 128) / 128 + abs(stages - 3))


def failing(tile: int, stages: int, threads: int) -> float | Failure:
    if stages == 3:
        return Failure("wrong", "the tail")
    if tile == 32:
        return Failure("does not compile", "no such instruction")
    if (tile, stages) == (64, 4):
        return Failure("timeout", "no end of the launch within 60 s")
    return smooth(tile, stages, threads)


def search(
    spec: KernelSpec, folder: Path, bench: FakeBench, progress: Seen | None = None, **given: object
) -> Found:
    found = goal(spec)
    space = space_of(spec, found.case, found.arch)
    with Journal(folder, found.identity) as journal:
        return Search(
            candidates=in_order(space, found.gpu),
            bench=bench,
            journal=journal,
            target=TARGET,
            progress=progress or Seen(),
            **{"batch": 4, **given},  # type: ignore[arg-type]
        ).run()


def test_the_fastest_is_found_and_everything_is_tried_once(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    found = search(spec, tmp_path, bench)
    assert found.ended == "all tried" and found.tried == 14
    assert found.timed[0].values == {"tile": 128, "stages": 3, "threads": 128}
    assert sorted(bench.measured) == sorted(set(bench.measured)) and len(bench.measured) == 14


def test_while_a_batch_is_timed_the_next_is_compiled(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    search(spec, tmp_path, bench)
    batches = [bench.measured[i : i + 4] for i in range(0, 14, 4)]
    assert len(bench.ahead) == len(batches) and bench.ahead[-1] == []
    for batch, ahead, following in zip(batches, bench.ahead, batches[1:], strict=False):
        assert 0 < len(ahead) <= 4 and not set(ahead) & set(batch)
        # The best of the batch may bring other neighbours; what is likely by itself stays.
        assert len(set(ahead) & set(following)) >= len(following) // 2


def test_reasons_of_failures_are_kept_and_the_rest_goes_on(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(failing)
    found = search(spec, tmp_path, bench)
    kinds = {o.id: (o.kind, o.reason) for o in found.outcomes}
    assert kinds["t128-s3"] == ("wrong", "the tail")
    assert kinds["t32-s1"] == ("does not compile", "no such instruction")
    assert kinds["t64-s4"] == ("timeout", "no end of the launch within 60 s")
    assert "t32-s1" not in bench.measured
    assert found.timed[0].values["stages"] in (2, 4) and found.timed[0].values["tile"] == 128


def test_a_wrong_schedule_never_wins_however_fast(spec: KernelSpec, tmp_path: Path) -> None:
    def fast_but_wrong(tile: int, stages: int, threads: int) -> float | Failure:
        return Failure("wrong", "the tail") if stages == 3 else 1e-4

    found = search(spec, tmp_path, FakeBench(fast_but_wrong))
    assert all(o.values["stages"] != 3 for o in found.timed)


def test_where_everything_fails_the_reasons_are_there(spec: KernelSpec, tmp_path: Path) -> None:
    found = search(spec, tmp_path, FakeBench(lambda **_: Failure("launch error", "no")))
    assert found.timed == () and {o.kind for o in found.outcomes} == {"launch error"}


def test_neighbours_of_the_best_come_before_what_the_model_likes(
    spec: KernelSpec, space: Space, tmp_path: Path
) -> None:
    def unlike_the_model(tile: int, stages: int, threads: int) -> float:
        return 1e-6 * tile * stages

    order = in_order(space, goal(spec).gpu)
    bench = FakeBench(unlike_the_model)
    search(spec, tmp_path, bench)
    best = min(order[:4], key=lambda c: unlike_the_model(**c.values))
    near = [c.id for c in neighbours(best, order[4:])]
    assert set(bench.compiled[:4]) == {c.id for c in order[:4]}
    assert set(near[:2]) <= set(bench.compiled[4:8])
    assert [c.id for c in order[4:] if c.id not in near[:2]][:2] != near[:2]


def test_progress_tells_the_best_so_far(spec: KernelSpec, tmp_path: Path) -> None:
    seen = Seen()
    search(spec, tmp_path, FakeBench(smooth), seen)
    assert [done for done, _ in seen.lines] == list(range(1, 15))
    assert seen.lines[-1] == (14, "best 100.0 us by t128-s3") and seen.closed


def test_an_interrupted_search_goes_on_where_it_stopped(spec: KernelSpec, tmp_path: Path) -> None:
    first = FakeBench(failing)

    def interrupt(candidate: Candidate) -> None:
        if len(first.measured) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            signal.sigpending()

    first.on_measure = interrupt
    before = signal.getsignal(signal.SIGINT)
    found = search(spec, tmp_path, first)
    assert found.ended == "interrupted" and signal.getsignal(signal.SIGINT) is before
    done = {o.id for o in found.outcomes}
    assert 3 <= len(done) < 14
    second = FakeBench(failing)
    again = search(spec, tmp_path, second)
    assert again.ended == "all tried" and len(again.outcomes) == 14 and again.tried == 14 - len(done)
    assert not done & set(second.compiled)
    assert again.timed[0] == search(spec, tmp_path / "other", FakeBench(failing)).timed[0]


def test_a_search_ends_with_its_budget_and_goes_on_later(spec: KernelSpec, tmp_path: Path) -> None:
    now = [0.0]
    bench = FakeBench(smooth)
    bench.on_measure = lambda _: now.__setitem__(0, now[0] + 60)
    found = search(spec, tmp_path, bench, budget=300, clock=lambda: now[0])
    assert found.ended == "out of time" and 5 <= len(found.outcomes) <= 8
    again = search(spec, tmp_path, FakeBench(smooth))
    assert again.tried == 14 - len(found.outcomes)


def test_what_the_deadline_cuts_off_is_no_failure(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    waiting = threading.Event()

    def hangs(candidate: Candidate) -> None:
        if len(bench.measured) == 2:
            bench._stopped.wait(10)
            waiting.set()

    bench.on_measure = hangs
    found = search(spec, tmp_path, bench, budget=0.5)
    assert waiting.is_set() and found.ended == "out of time"
    assert [o.kind for o in found.outcomes] == ["timed", "timed"]


def test_a_bench_that_is_broken_ends_the_search_and_blames_no_schedule(
    spec: KernelSpec, tmp_path: Path
) -> None:
    bench = FakeBench(smooth)

    def breaks(candidate: Candidate) -> None:
        if len(bench.measured) == 5:
            raise BenchError("the GPU is gone")

    bench.on_measure = breaks
    with pytest.raises(BenchError, match="the GPU is gone"):
        search(spec, tmp_path, bench)
    again = search(spec, tmp_path, FakeBench(smooth))
    assert {o.kind for o in again.outcomes} == {"timed"} and again.tried == 9


def test_a_bench_that_gives_no_results_ends_the_search(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    bench.stop()
    with pytest.raises(BenchError, match="nothing came of a whole batch"):
        search(spec, tmp_path, bench)


def test_autotuner_leaves_no_log_and_says_nothing(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    run_batch(space.candidates[:3], FakeBench(failing), TARGET, lambda *_: None)
    assert capfd.readouterr() == ("", "")
    left = [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".py"]
    assert left == []


def test_autotuner_gives_each_result_once_whatever_comes_of_it(space: Space) -> None:
    told: dict[str, Timing | Failure] = {}

    def tell(candidate: Candidate, found: Timing | Failure) -> None:
        assert candidate.id not in told
        told[candidate.id] = found

    run_batch(space.candidates, FakeBench(failing), TARGET, tell)
    assert set(told) == {c.id for c in space.candidates}
    assert told["t128-s2"] == timing(smooth(128, 2, 128))  # type: ignore[arg-type]
