"""The commands about stored times: compare, promote, calibrate. None of them touches a GPU here."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilecheck import environment
from tilecheck.cli import calibrate, main
from tilecheck.latency.baselines import read_run
from tilecheck.latency.calibration import spreads
from tilecheck.latency.gate import POLICY, judge
from tilecheck.latency.promotion import merge

RunFile = Callable[..., Path]

SPECS = """
from tilecheck.spec import Case, KernelSpec

def spec(name, id, **more):
    case = Case(id, {"n": 4}, "float16", why="a row")
    return KernelSpec(name, lambda n: None, lambda n: None, (case,), latency_cases=(id,), **more)

SPECS = (spec("matmul", "square"), spec("soft_max", "wide"), spec("blackwell", "any", arches=("sm_100a",)))
"""

FAILED, INTERRUPTED = -1.0, -2.0
"""What stands for a run's factor where it does not end well."""

ROWS = {"matmul:square": 100e-6, "soft_max:wide": 50e-6}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with two rows for an H200, and one for another GPU."""
    root = tmp_path / "project"
    root.mkdir()
    (root / "pytest.ini").write_text("[pytest]\npythonpath = .\ntilecheck_specs = kernels_timed\n")
    (root / "kernels_timed.py").write_text(SPECS)
    monkeypatch.chdir(root)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield root
    sys.modules.pop("kernels_timed", None)


@pytest.fixture
def runs(project: Path, run_file: RunFile) -> list[str]:
    """Files of three runs that agree."""
    return [
        str(run_file(f"run{i}.json", {id: t * f for id, t in ROWS.items()}, tilecheck={"arch": "sm_90a"}))
        for i, f in enumerate((1.0, 1.002, 0.999))
    ]


def stored(project: Path) -> list[str]:
    return sorted(path.name for path in (project / "baselines" / "nvidia-h200").glob("*"))


class TestCompare:
    @pytest.mark.parametrize(
        ("factors", "parts", "code", "line"),
        [
            ((1.0, 1.01), {}, 0, "2 rows: 0 slower, 0 inconclusive, 0 faster, 2 same"),
            ((0.9, 1.0), {}, 0, "matmul-square: faster: faster in time, and against cublas: 100 us -> 90 us"),
            (
                (1.1, 1.0),
                {},
                1,
                "matmul-square: slower: slower in time, and against cublas: 100 us -> 110 us",
            ),
            (
                (1.0, 1.0),
                {"extra": {"method": "graph64"}},
                3,
                "matmul-square: inconclusive: taken differently",
            ),
            ((1.1, 1.1), {"vendor": 99e-6}, 3, "not against cublas, so it may be the machine"),
        ],
        ids=["same", "faster", "slower", "method", "machine"],
    )
    def test_exit_code_is_the_verdict(
        self,
        run_file: RunFile,
        capsys: pytest.CaptureFixture[str],
        factors: tuple[float, float],
        parts: dict[str, Any],
        code: int,
        line: str,
    ) -> None:
        old = run_file("a.json", ROWS)
        new = run_file(
            "b.json", {id: t * f for (id, t), f in zip(ROWS.items(), factors, strict=True)}, **parts
        )
        assert main(["compare", str(old), str(new)]) == code
        assert line in capsys.readouterr().out

    def test_a_slower_row_outweighs_an_open_one(
        self, run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        old, new = run_file("a.json", ROWS), run_file("b.json", {"matmul:square": 110e-6})
        assert main(["compare", str(old), str(new)]) == 1
        assert "soft-max-wide: only in the first file" in capsys.readouterr().out
        assert main(["compare", str(new), str(new)]) == 0

    def test_all_shows_what_did_not_move(self, run_file: RunFile, capsys: pytest.CaptureFixture[str]) -> None:
        old = str(run_file("a.json", ROWS))
        assert main(["compare", old, old]) == 0
        assert capsys.readouterr().out.count("\n") == 1
        assert main(["compare", old, old, "--all"]) == 0
        assert "soft-max-wide: same: within the band" in capsys.readouterr().out

    def test_unusable_files_are_one_line(
        self, run_file: RunFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        old = str(run_file("a.json", ROWS))
        (tmp_path / "cut.json").write_text('{"benchmarks": [')
        others = [str(run_file("b.json", ROWS, gpu="NVIDIA B200")), str(tmp_path / "cut.json"), "none.json"]
        for other in others:
            assert main(["compare", old, other]) == 2
            told = capsys.readouterr()
            assert told.out == ""
            assert told.err.startswith("tilecheck: ") and told.err.count("\n") == 1


class TestPromote:
    def test_writes_the_next_number_and_says_what_moved(
        self, project: Path, runs: list[str], run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["promote", *runs]) == 0
        told = capsys.readouterr()
        assert told.out.splitlines() == [
            "matmul-square: 100 us, new",
            "soft-max-wide: 50 us, new",
            "2 rows: a slowdown is found from 2.1 % to 2.1 % on, in half of them from 2.1 % on",
        ]
        assert told.err == "written: baselines/nvidia-h200/0001_tilelang-0.1.15.json\n"
        faster = [
            str(run_file(f"next{i}.json", {"matmul:square": 80e-6 + i * 1e-8, "soft_max:wide": 50e-6}))
            for i in range(3)
        ]
        # Without its architecture a run has to have every row.
        for path in faster:
            content = json.loads(Path(path).read_text())
            content["tilecheck"]["arch"] = "sm_90a"
            Path(path).write_text(json.dumps(content))
        assert main(["promote", *faster, "--name", "quicker"]) == 0
        assert "matmul-square: 100 us -> 80.01 us, -20.0 %" in capsys.readouterr().out
        assert stored(project) == ["0001_tilelang-0.1.15.json", "0002_quicker.json"]
        merged = read_run(project / "baselines" / "nvidia-h200" / "0001_tilelang-0.1.15.json")
        assert merged.rows["matmul-square"].noise == pytest.approx(0.00172, abs=1e-4)

    def test_works_from_a_folder_below_and_stores_where_the_project_says(
        self, project: Path, runs: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with (project / "pytest.ini").open("a") as file:
            file.write("tilecheck_baselines = bars\n")
        (project / "below").mkdir()
        monkeypatch.chdir(project / "below")
        assert main(["promote", *runs]) == 0
        assert (project / "bars" / "nvidia-h200" / "0001_tilelang-0.1.15.json").exists()

    def test_dry_run_writes_nothing(
        self, project: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["promote", *runs, "--dry-run"]) == 0
        assert "matmul-square: 100 us, new" in capsys.readouterr().out
        assert not (project / "baselines").exists()

    def test_is_refused_with_all_reasons_and_writes_nothing(
        self, project: Path, runs: list[str], run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bad = run_file("bad.json", {"matmul:square": 2e-4}, commit_info={"id": "abc", "dirty": True})
        assert main(["promote", *runs, str(bad)]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        lines = told.err.splitlines()
        assert all(line.startswith("tilecheck promote: ") for line in lines)
        for words in ("bad.json: sources changed since commit abc", "bad.json: without soft-max-wide"):
            assert any(words in line for line in lines), lines
        assert not (project / "baselines").exists()

    def test_a_corrupt_newest_file_is_not_built_upon(
        self, project: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["promote", *runs]) == 0
        newest = project / "baselines" / "nvidia-h200" / "0002_cut.json"
        newest.write_text("{")
        capsys.readouterr()
        assert main(["promote", *runs]) == 2
        assert "0002_cut.json: line 1, column 2: no JSON" in capsys.readouterr().err
        assert stored(project) == ["0001_tilelang-0.1.15.json", "0002_cut.json"]

    def test_a_name_is_part_of_a_files_name(
        self, project: Path, runs: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["promote", *runs, "--name", "../x"]) == 2
        assert "--name '../x' is no part" in capsys.readouterr().err


class TestCalibrate:
    @pytest.fixture
    def machine(self, monkeypatch: pytest.MonkeyPatch, run_file: RunFile) -> list[float]:
        """Factors by which the coming runs take longer; 0: a file that cannot be read."""
        factors: list[float] = []

        def fake(root: Path, path: Path, choice: Any = ()) -> int:
            factor = factors.pop(0)
            made = run_file(
                "made.json", {"matmul:square": 100e-6 * (abs(factor) or 1.0), "soft_max:wide": 50e-6}
            )
            if factor == 0:
                made.write_text("{")
            made.replace(path)
            if factor == INTERRUPTED:
                raise KeyboardInterrupt
            return 1 if factor == FAILED else 0

        monkeypatch.setattr(calibrate, "run_pytest", fake)
        monkeypatch.setattr(environment, "why_no_gpu", lambda machine: None)
        return factors

    def test_keeps_its_runs_and_tells_the_spread_between_them(
        self, project: Path, machine: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        machine += [1.0, 1.01, 1.02]
        assert main(["calibrate"]) == 0
        told = capsys.readouterr()
        assert [" ".join(line.split()) for line in told.out.splitlines()] == [
            "row median runs differ by noise over vendor vendor band finds from",
            "matmul-square 101 us 2.00 % 1.12 % 1.12 % cublas 3.35 % 7.03 %",
            "soft-max-wide 50 us 0.00 % 0.00 % 0.00 % cublas 3.35 % 1.50 %",
            "3 runs in latency-runs",
        ]
        assert "tilecheck promote latency-runs/run-*.json" in told.err
        assert sorted(path.name for path in (project / "latency-runs").iterdir()) == [
            "run-001.json",
            "run-002.json",
            "run-003.json",
        ]

    def test_one_run_is_kept_for_those_to_come(
        self, project: Path, machine: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        machine += [1.0]
        assert main(["calibrate", "--runs", "1"]) == 0
        assert "1 run in latency-runs, and noise is what differs between runs" in capsys.readouterr().err
        assert [path.name for path in (project / "latency-runs").iterdir()] == ["run-001.json"]

    def test_later_runs_add_to_those_that_are_kept(
        self, project: Path, machine: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        machine += [1.0, 1.01]
        assert main(["calibrate", "--runs", "2", "--out", "kept"]) == 0
        machine += [1.05]
        assert main(["calibrate", "--runs", "1", "--out", "kept"]) == 0
        assert "3 runs in kept" in capsys.readouterr().out
        assert main(["calibrate", "--runs", "0", "--out", "kept"]) == 0
        assert "matmul-square  101 us          5.00 %" in capsys.readouterr().out

    def test_rows_that_some_run_lacks_are_told_of(
        self, project: Path, run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        folder = run_file("kept/run-001.json", ROWS).parent
        run_file("kept/run-002.json", {"soft_max:wide": 50e-6})  # as -k leaves one
        assert main(["calibrate", "--runs", "0", "--out", str(folder)]) == 0
        told = capsys.readouterr()
        assert "soft-max-wide" in told.out and "matmul-square" not in told.out
        assert "not in all of the runs, and left out: matmul-square\n" in told.err
        run_file("kept/run-003.json", {"matmul:square": 1e-4})
        assert main(["calibrate", "--runs", "0", "--out", str(folder)]) == 2
        assert capsys.readouterr() == ("", "tilecheck: the 3 runs have no row in common\n")

    def test_tells_what_a_baseline_of_them_finds(
        self, project: Path, run_file: RunFile, tmp_path: Path
    ) -> None:
        """Its own noise is small by chance, in the second row, and machines differ by what others show."""
        rows = [f"matmul:row-{i}" for i in range(10)]
        runs = [
            read_run(run_file(f"{f}.json", {**dict.fromkeys(rows, f * 1e-4), "soft_max:wide": 5e-5}))
            for f in (1.0, 1.012, 0.99)
        ]
        merged = merge(runs, tmp_path / "0001_x.json")
        found = {spread.row: spread for spread in spreads(runs)}
        assert set(found) == set(merged.rows)
        for id, row in merged.rows.items():
            assert found[id].smallest == pytest.approx(POLICY.smallest_of(row.bar))
            assert found[id].band == pytest.approx(judge(row.measurement, row.bar).band)
        assert found["soft-max-wide"].noise.time == 0 and found["soft-max-wide"].band > 0.03

    def test_a_run_that_fails_ends_it_and_those_before_are_kept(
        self, project: Path, machine: list[float], capsys: pytest.CaptureFixture[str]
    ) -> None:
        machine += [1.0, FAILED]
        assert main(["calibrate"]) == 1
        assert "run-002.json: the run failed, exit code 1" in capsys.readouterr().err
        assert [path.name for path in (project / "latency-runs").glob("run-*")] == ["run-001.json"]

    @pytest.mark.parametrize(("ending", "code"), [(FAILED, 1), (INTERRUPTED, 130), (0, 1)])
    def test_a_run_that_did_not_end_well_is_none_of_the_next_calibrations(
        self,
        project: Path,
        machine: list[float],
        capsys: pytest.CaptureFixture[str],
        ending: float,
        code: int,
    ) -> None:
        machine += [1.0, ending]
        assert main(["calibrate"]) == code
        machine += [1.01]
        assert main(["calibrate", "--runs", "1"]) == 0
        assert "2 runs in latency-runs" in capsys.readouterr().out
        kept = sorted(path.name for path in (project / "latency-runs").iterdir())
        assert kept == ["run-001.json", "run-002.json"]

    @pytest.mark.parametrize(
        ("parts", "message"),
        [
            ({"extra": {"source_hash": "b"}}, "run-002.json: matmul-square: another source hash than in"),
            ({"extra": {"schedule": "b"}}, "run-002.json: matmul-square: another schedule than in"),
            ({"extra": {"method": "graph64"}}, "run-002.json: matmul-square: another method than in"),
            ({"gpu": "NVIDIA H200 NVL"}, "run-002.json is of NVIDIA H200 NVL, and"),
            ({"extra": {"toolchain": {"tilelang": "0.1.16"}}}, "run-002.json: another toolchain than"),
        ],
    )
    def test_what_differs_by_more_than_noise_has_no_noise(
        self,
        project: Path,
        run_file: RunFile,
        capsys: pytest.CaptureFixture[str],
        parts: dict[str, Any],
        message: str,
    ) -> None:
        folder = run_file("kept/run-001.json", ROWS).parent
        run_file("kept/run-002.json", ROWS, **parts)
        assert main(["calibrate", "--runs", "0", "--out", str(folder)]) == 2
        told = capsys.readouterr()
        assert told.out == "" and told.err.count("\n") == 1
        assert message in told.err

    def test_without_a_gpu_it_is_one_line_and_leaves_nothing(
        self,
        project: Path,
        machine: list[float],
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        machine += [1.0, 1.01]
        assert main(["calibrate", "--runs", "2", "--out", "kept"]) == 0
        capsys.readouterr()
        monkeypatch.setattr(environment, "why_no_gpu", lambda machine: "no NVIDIA driver")
        assert main(["calibrate"]) == 2
        assert capsys.readouterr() == (
            "",
            "tilecheck: times want a GPU: no NVIDIA driver; --runs 0 tells of those that are kept\n",
        )
        assert not (project / "latency-runs").exists()
        assert main(["calibrate", "--runs", "0", "--out", "kept"]) == 0

    def test_alarms_of_runs_that_went_into_no_baseline_are_counted_and_kept(
        self, project: Path, machine: list[float], run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bar = run_file("bar.json", {"matmul:square": 1e-4, "soft_max:wide": 5e-5})
        stored = project / "baselines" / "nvidia-h200"
        stored.mkdir(parents=True, exist_ok=True)
        bar.replace(stored / "0001_bar.json")
        machine += [1.0, 1.1]
        assert main(["calibrate", "--runs", "2", "--alarms"]) == 0
        told = capsys.readouterr().out
        assert "2 runs of unchanged kernels, of 2 rows each, 4 in all: 3 same, 1 slower" in told
        machine += [1.0]
        assert main(["calibrate", "--runs", "1", "--alarms", "1"]) == 0
        assert "3 runs of unchanged kernels, of 2 rows each, 6 in all" in capsys.readouterr().out
        assert len((stored / "alarms.jsonl").read_text().splitlines()) == 3

    def test_alarms_against_a_baseline_that_was_replaced_are_told_and_not_counted(
        self, project: Path, machine: list[float], run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        stored = project / "baselines" / "nvidia-h200"
        stored.mkdir(parents=True, exist_ok=True)
        run_file("bar.json", {"matmul:square": 1e-4}).replace(stored / "0001_bar.json")
        machine += [1.0]
        assert main(["calibrate", "--runs", "1", "--alarms"]) == 0
        run_file("bar.json", {"matmul:square": 0.9e-4}).replace(stored / "0001_bar.json")
        machine += [1.0]
        assert main(["calibrate", "--runs", "1", "--alarms", "--out", "others"]) == 0
        told = capsys.readouterr()
        assert "1 run was held against 0001_bar.json before it was changed" in told.err
        assert "1 run of unchanged kernels, of 1 row: 0 same, 1 slower" in told.out
        assert main(["calibrate", "--runs", "0", "--alarms"]) == 0  # held against it anew
        told = capsys.readouterr()
        assert "2 runs of unchanged kernels" in told.out and told.err == ""

    def test_alarms_want_runs_that_the_baseline_was_not_made_of(
        self, project: Path, machine: list[float], run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["calibrate", "--runs", "0", "--alarms"]) == 2
        assert "no run is kept that could be held against a baseline" in capsys.readouterr().err
        machine += [1.0]
        assert main(["calibrate", "--runs", "1", "--out", "kept"]) == 0
        (run,) = (project / "kept").iterdir()
        taken = json.loads(run.read_text())["datetime"]
        stored = project / "baselines" / "nvidia-h200"
        stored.mkdir(parents=True, exist_ok=True)
        bar = run_file("bar.json", {"matmul:square": 1e-4}, tilecheck={"runs": [taken]})
        bar.replace(stored / "0001_bar.json")
        assert main(["calibrate", "--runs", "0", "--out", "kept", "--alarms"]) == 2
        assert (
            "no run tells of false alarms of 0001_bar.json: all of them went into it"
            in capsys.readouterr().err
        )

    def test_verdicts_that_are_kept_tell_of_themselves_without_a_run(
        self, project: Path, machine: list[float], run_file: RunFile, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for gpu in ("nvidia-h200", "nvidia-b200"):
            (project / "baselines" / gpu).mkdir(parents=True)
            run_file("bar.json", ROWS).replace(project / "baselines" / gpu / "0001_bar.json")
        machine += [1.0]
        assert main(["calibrate", "--runs", "1", "--alarms"]) == 0
        told = capsys.readouterr().out
        asked = ["calibrate", "--runs", "0", "--alarms", "--out", "none"]
        assert main(asked) == 0
        assert capsys.readouterr() == (told, "")
        assert not (project / "none").exists()
        kept = project / "baselines" / "nvidia-h200" / "alarms.jsonl"
        (project / "baselines" / "nvidia-b200" / "alarms.jsonl").write_text(kept.read_text())
        assert main(asked) == 2  # of which GPU is it to tell?

    def test_a_run_is_a_process_of_pytest_that_wants_a_gpu(self, project: Path) -> None:
        if pytest.importorskip("torch").cuda.is_available():
            pytest.skip("there is a GPU")
        path = project / "run.json"
        assert calibrate.run_pytest(project, path) == pytest.ExitCode.USAGE_ERROR
        assert not path.exists()
