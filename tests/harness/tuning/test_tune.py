"""The whole search for a case: what is stored, what is refused, what is told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import softmax
from tests.harness.tuning.fakes import SOURCE, FakeBench, Seen, facts, goal, module_in
from tilecheck.arches import arch
from tilecheck.codegen import NoToolchain
from tilecheck.spec import KernelSpec
from tilecheck.tuning import explore
from tilecheck.tuning.lookup import choose
from tilecheck.tuning.machine import goal_for
from tilecheck.tuning.outcomes import Failure, Outcome
from tilecheck.tuning.report import text_of, text_of_compiled
from tilecheck.tuning.space import Candidate
from tilecheck.tuning.tune import Goal, Tuned, compile_ranked, tune
from tilecheck.tuning.winners import WinnersError, read_winners


@pytest.fixture
def spec(tmp_path: Path) -> KernelSpec:
    found: KernelSpec = module_in(tmp_path).SPEC
    return found


def smooth(tile: int, stages: int, threads: int) -> float | Failure:
    """Best at 128 and 3, which is wrong; then at 128 and 2, at 128 and 4, by default, at 64 and 4."""
    if stages == 3:
        return Failure("wrong", "copy is wrong\nY: 3 of 1000 elements\n  worst at [7]: got 1, want 2")
    return 1e-4 * (1 + abs(tile - 128) / 128 + {1: 2.0, 2: 1.0, 4: 1.2}[stages])


def tuned(spec: KernelSpec, folder: Path, bench: FakeBench, found: Goal | None = None, **given: Any) -> Tuned:
    (folder / "journals").mkdir(exist_ok=True)
    return tune(
        found or goal(spec),
        bench,
        journals=folder / "journals",
        winners=folder / "schedules.json",
        progress=lambda name, total: Seen(),
        batch=4,
        **given,
    )


def test_a_faster_schedule_is_stored_and_used_from_then_on(spec: KernelSpec, tmp_path: Path) -> None:
    found = tuned(spec, tmp_path, FakeBench(smooth))
    assert found.confirmed is not None and found.confirmed.kept and found.stored == "stored in schedules.json"
    (entry,) = read_winners(tmp_path / "schedules.json")
    assert entry.schedule == {"tile": 128, "stages": 2, "threads": 128} and entry == found.winner
    assert entry.median < (entry.default_median or 0) and entry.tried == 14
    assert entry.default == {"tile": 64, "stages": 2, "threads": 128}
    assert entry.runner_up == {"tile": 128, "stages": 4, "threads": 128}
    assert entry.gpu == "nvidia-h200" and entry.versions == {"tilelang": "0.1.15"}
    arch = found.goal.arch
    assert spec.schedule_for(spec.case("long"), arch) != spec.own_schedule(spec.case("long"), arch)
    text = text_of(found)
    assert "space: 4 x 4 = 16 combinations, 14 legal, 14 to try" in text
    assert "tried: 11 timed, 3 wrong; 14 of them now" in text
    assert "wrong: t128-s3: worst at [7]: got 1, want 2" in text
    assert "+20.0 %: kept (+20.00%, over noise of 0.50%); stored in schedules.json" in text


def test_the_next_search_begins_with_the_winner_and_finds_nothing_better(
    spec: KernelSpec, tmp_path: Path
) -> None:
    tuned(spec, tmp_path, FakeBench(smooth))
    before = (tmp_path / "schedules.json").read_text()
    bench = FakeBench(smooth)
    again = tuned(spec, tmp_path, bench)
    assert bench.measured == []  # all of it is in the journal
    assert again.space.default.values == {"tile": 128, "stages": 2, "threads": 128}
    assert again.winner is None and (tmp_path / "schedules.json").read_text() == before
    assert "the default stays" in text_of(again)


def test_a_default_that_the_search_did_not_come_to_is_met_all_the_same(
    spec: KernelSpec, tmp_path: Path
) -> None:
    def starting_with(tile: int, stages: int) -> KernelSpec:
        usual = type(spec.own_schedule(spec.case("long"), arch("sm_90a")))(tile, stages)
        cases = [spec.case("long")]
        return replace(spec, cases=cases, default_schedule=lambda N: usual)

    tuned(starting_with(64, 4), tmp_path, FakeBench(smooth), most=3)
    (tmp_path / "schedules.json").unlink(missing_ok=True)
    best = FakeBench(smooth)
    found = tuned(starting_with(128, 2), tmp_path, best, goal(starting_with(128, 2)), budget=1e-9)
    assert found.found.ended == "out of time" and best.measured == []
    assert "default" not in {o.id for o in found.found.timed} and found.confirmed is not None
    assert found.confirmed.default == smooth(128, 2, 128) and found.winner is None
    assert not (tmp_path / "schedules.json").exists()


def test_within_noise_the_default_stays(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    ids = ["default", "t128-s2", "t128-s4", "t64-s4"]
    bench.turns = [{id: 1e-4 if id == "default" else 0.998e-4 for id in ids}] * 5
    found = tuned(spec, tmp_path, bench)
    assert found.winner is None and not (tmp_path / "schedules.json").exists()
    assert "is within noise" in text_of(found)


def test_a_finalist_that_is_wrong_for_other_inputs_is_refused_for_good(
    spec: KernelSpec, tmp_path: Path
) -> None:
    bench = FakeBench(smooth)
    bench.unlucky = {"t128-s2": Failure("wrong", "for seed 2")}
    found = tuned(spec, tmp_path, bench)
    assert found.winner is not None and found.winner.schedule["stages"] == 4
    assert "refused at the end: t128-s2: wrong: for seed 2" in text_of(found)
    again = tuned(replace(spec, tuning_cases=()), tmp_path, FakeBench(smooth))
    assert {o.kind for o in again.found.outcomes if o.values["tile"] == 128 and o.values["stages"] == 2} == {
        "wrong"
    }


def test_where_all_finalists_fail_the_next_ones_get_their_turn(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    first = {"t128-s2", "t128-s4", "t64-s4"}
    bench.unlucky = {id: Failure("wrong", "for seed 2") for id in first}
    found = tuned(spec, tmp_path, bench)
    assert first <= set(found.refused) and found.confirmed is not None
    assert found.confirmed.winner not in first


def test_a_winner_that_breaks_a_promise_of_the_spec_is_refused(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    bench.made = lambda c: facts(spill_stores=64 if c.id == "t128-s2" else 0)
    found = tuned(spec, tmp_path, bench)
    assert found.refused["t128-s2"].kind == "breaks a promise"
    assert "no-spills" in found.refused["t128-s2"].reason
    assert found.winner is not None and found.winner.schedule["stages"] == 4


def test_a_promise_that_the_default_breaks_as_well_is_no_reason(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    bench.made = lambda c: facts(spill_stores=64)
    found = tuned(spec, tmp_path, bench)
    assert found.winner is not None and found.winner.schedule["stages"] == 2


def test_a_spoilt_file_is_refused_before_anything_is_tried(spec: KernelSpec, tmp_path: Path) -> None:
    (tmp_path / "schedules.json").write_text("{}")
    bench = FakeBench(smooth)
    with pytest.raises(WinnersError, match="is no file of schedules"):
        tuned(spec, tmp_path, bench)
    assert bench.compiled == []


def test_an_entry_that_is_out_of_date_goes_if_nothing_takes_its_place(
    spec: KernelSpec, tmp_path: Path
) -> None:
    tuned(spec, tmp_path, FakeBench(smooth))
    changed = module_in(tmp_path, SOURCE.replace("if b * tile + i < last", "if b * tile + i < N")).SPEC
    bench = FakeBench(lambda **values: 1e-4)
    with pytest.warns(UserWarning, match="out of date"):
        found = tuned(changed, tmp_path, bench)
    assert found.winner is None and read_winners(tmp_path / "schedules.json") == ()
    assert found.stored == "its entry in schedules.json was out of date, and is removed"
    assert choose(changed, changed.case("long"), found.goal.arch) is None


def test_another_toolchain_or_gpu_shares_no_results(spec: KernelSpec, tmp_path: Path) -> None:
    tuned(spec, tmp_path, FakeBench(smooth))
    bench = FakeBench(smooth)
    tuned(spec, tmp_path, bench, goal(spec, nvcc="13.1"))
    assert len(bench.measured) >= 11
    other = goal(spec)
    bench = FakeBench(smooth)
    tuned(spec, tmp_path, bench, replace(other, arch=replace(other.arch, gpu="nvidia-gh200")))
    assert len(bench.measured) >= 11
    assert {w.gpu for w in read_winners(tmp_path / "schedules.json")} == {"nvidia-h200", "nvidia-gh200"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return X\n", "return X + 0\n"),
        ("        reference,\n", "        lambda X: X,\n"),
        ('why="a tail"', 'why="a tail", draw="integers"'),
    ],
)
def test_what_a_faulty_reference_called_wrong_is_tried_again_once_it_is_mended(
    tmp_path: Path, old: str, new: str
) -> None:
    assert old in SOURCE
    faulty = module_in(tmp_path, SOURCE.replace(old, new)).SPEC
    first = tuned(faulty, tmp_path, FakeBench(lambda **_: Failure("wrong", "all of it")))
    assert first.confirmed is None
    found = tuned(module_in(tmp_path).SPEC, tmp_path, FakeBench(smooth))
    assert found.found.tried == 14 and found.stored == "stored in schedules.json"
    again = tuned(module_in(tmp_path).SPEC, tmp_path, FakeBench(smooth))
    assert again.found.tried == 0


def test_where_nothing_is_right_nothing_is_stored(spec: KernelSpec, tmp_path: Path) -> None:
    found = tuned(spec, tmp_path, FakeBench(lambda **_: Failure("wrong", "all of it")))
    assert found.confirmed is None and found.winner is None
    assert "no schedule is right and has a time" in text_of(found)
    assert "nothing to confirm: what is in use stays" in text_of(found)


def test_a_default_that_does_not_run_gives_way_to_what_does(spec: KernelSpec, tmp_path: Path) -> None:
    def without_default(tile: int, stages: int, threads: int) -> float | Failure:
        return Failure("launch error", "no") if (tile, stages) == (64, 2) else smooth(tile, stages, threads)

    found = tuned(spec, tmp_path, FakeBench(without_default))
    assert found.winner is not None and found.winner.default_median is None
    assert "(the default has no time)" in text_of(found)


def test_a_default_that_fails_only_in_the_end_stays_and_is_told(spec: KernelSpec, tmp_path: Path) -> None:
    bench = FakeBench(smooth)
    bench.unlucky["default"] = Failure("died", "ended by SIGKILL")
    found = tuned(spec, tmp_path, bench)
    assert found.winner is None and not (tmp_path / "schedules.json").exists()
    said = "the default stays (the default had a time, and none in turn: died: ended by SIGKILL)"
    assert said in text_of(found)


def test_how_each_knob_moves_latency(spec: KernelSpec, tmp_path: Path) -> None:
    found = tuned(spec, tmp_path, FakeBench(smooth))
    effects = {(e.knob, e.value): e for e in explore.effects(found.found.outcomes, spec.tuning)}
    assert effects["tile", 128].alone == pytest.approx(2e-4)
    assert effects["tile", 64].alone == pytest.approx(2.5e-4)
    assert effects["stages", 4].best == pytest.approx(2.2e-4)
    assert effects["stages", 3].alone is None and effects["stages", 3].best is None
    assert (effects["stages", 3].timed, effects["stages", 3].failed) == (0, 3)
    lines = explore.table(list(effects.values())).splitlines()
    assert lines[0].split() == ["knob", "value", "alone", "best", "with", "it", "timed", "failed"]
    assert any(
        line.split() == ["64", "250.0", "us", "1.25x", "250.0", "us", "1.25x", "3", "1"] for line in lines
    )
    data = json.loads(json.dumps(explore.as_json(found.found.outcomes, spec.tuning)))
    assert len(data["outcomes"]) == 14 and len(data["effects"]) == 8
    assert Outcome.of_json(data["outcomes"][0]) == found.found.outcomes[0]


def test_without_times_no_knob_is_compared() -> None:
    assert explore.effects([Outcome("a", {"tile": 1}, "wrong", "no")], {"tile": (1,)}) == []
    assert "no schedule has a time" in explore.table([])


def test_without_a_gpu_candidates_are_compiled_and_ranked_by_what_comes_out(spec: KernelSpec) -> None:
    bench = FakeBench(smooth)
    seen = Seen()

    def places(spilling: str) -> list[str]:
        def made(candidate: Candidate) -> Any:
            if candidate.id == "t32-s1":
                return Failure("does not compile", "no such instruction")
            return facts(registers=40, spill_stores=8 if candidate.id == spilling else 0)

        bench.made = made
        found = compile_ranked(goal(spec, "far"), bench, jobs=2, progress=lambda name, total: seen, most=20)
        return [candidate.id for candidate, *_ in found.rows]

    usual = places("")
    assert bench.measured == [] and len(usual) == 14 and seen.closed
    assert usual[-1] == "t32-s1"  # it does not compile
    assert places(usual[0]).index(usual[0]) > 0
    found = compile_ranked(goal(spec, "far"), bench, jobs=2, progress=lambda name, total: seen, most=3)
    assert len(found.rows) == 3
    assert places("")[-1] == "t32-s1"
    found = compile_ranked(goal(spec, "far"), bench, jobs=2, progress=lambda name, total: seen, most=14)
    text = text_of_compiled(found, "there is no GPU")
    assert text.endswith("\nfailed:\n  does not compile: t32-s1: no such instruction")
    assert "nothing was timed: there is no GPU" in text
    assert "reckoned for an NVIDIA H200 (132 multiprocessors)" in text


def test_rows_stand_in_the_order_of_the_estimate_that_they_show() -> None:
    # Many of its schedules have one estimate, so that they are not tried in this order.
    spec = softmax.SPEC
    case = next(case for case in spec.cases if case.id == spec.tuning_cases[0])
    bench = FakeBench(smooth)
    bench.made = lambda candidate: facts(registers=100)
    here = goal_for(spec, case, arch("sm_80"))
    found = compile_ranked(here, bench, jobs=1, progress=lambda name, total: Seen(), most=16)
    shown = [estimate.seconds for _, estimate, _ in found.rows if estimate]
    assert len(shown) == 16 and shown == sorted(shown)


def test_without_a_compiler_that_is_told(spec: KernelSpec) -> None:
    with pytest.raises(NoToolchain):
        compile_ranked(goal(spec), FakeBench(smooth), jobs=2, progress=lambda name, total: Seen(), most=4)


def test_an_interrupted_search_stores_nothing(spec: KernelSpec, tmp_path: Path) -> None:
    import os
    import signal

    bench = FakeBench(smooth)
    bench.on_measure = lambda _: os.kill(os.getpid(), signal.SIGINT) if len(bench.measured) == 3 else None
    found = tuned(spec, tmp_path, bench)
    assert found.found.ended == "interrupted" and found.winner is None
    assert not (tmp_path / "schedules.json").exists()
    assert "the same command goes on where this stopped" in text_of(found)
