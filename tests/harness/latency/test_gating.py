"""`pytest --benchmark-compare`, in a project of its own, on a GPU and a clock that are made up."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import tilecheck
from tests.harness.report import preload

# pytester drops the modules that only its runs import; see tests/harness/test_plugin.py.
from tilecheck import conformance, environment, launch, precompile  # noqa: F401
from tilecheck.arches import ARCHES
from tilecheck.environment import Machine
from tilecheck.latency import bench
from tilecheck.latency.baselines import read_run, write_next
from tilecheck.latency.promotion import merge, objections
from tilecheck.latency.timing import Samples, TimingError
from tilecheck.plugin.timing import stopwatch
from tilecheck.report import folder as report_folder

H200 = Machine(
    torch="2.11.0",
    torch_cuda="12.8",
    driver="580.65",
    driver_cuda="13.0",
    gpu="NVIDIA H200",
    capability=(9, 0),
    compiler=True,
)
BARE = Machine(torch="2.13.0+cpu", no_driver="NVML: Driver Not Loaded")

SPECS = """
from tilecheck.spec import Case, KernelSpec

def spec(name, *ids, **more):
    cases = tuple(Case(f"{id}-fp16", {"n": 4}, "float16", why="a row") for id in ids)
    more["latency_cases"] = [case.id for case in cases]
    return KernelSpec(name, lambda n: None, lambda n: None, cases, **more)

SPECS = (
    spec("row_scale", "one", "tail"),
    spec("soft_max", "wide"),
)
"""

CONFTEST = """
import pytest
from pathlib import Path

pytest_plugins = ["tilecheck.plugin"]

@pytest.fixture(autouse=True)
def stand_ins(monkeypatch, request):
    from tilecheck import conformance
    from tilecheck.oracle import Verdict
    from tilecheck.regions import Region

    def check(spec, case, device, *, seed, repeat, schedule=None, pass_configs=None):
        verdict = Verdict("float16", 4, Region((4,)), budget_used=0.1, terms_used=0.1)
        outcome = conformance.Outcome(
            spec.name, case.id, device.arch.name, device.name, "", True, {"C": verdict}
        )
        if (request.config.rootpath / f"wrong-{case.id}").exists():
            raise conformance.Mismatch(f"row 3 is wrong\\nrepeat: {repeat}", outcome)
        return outcome

    monkeypatch.setattr(conformance, "check", check)
"""

LATENCY = """
import pytest

pytestmark = pytest.mark.latency

def test_latency(latency_case, stopwatch, benchmark):
    stopwatch.measure(latency_case, benchmark)
"""

CODEGEN = """
import pytest

@pytest.mark.codegen
def test_facts():
    pass

def test_other():
    pass
"""

ROWS_OF_CODE = """
import pytest

from tilecheck.plugin import CodeRow

pytestmark = pytest.mark.codegen

def test_facts(code_row):
    pass

def test_stored_rows(code_arch):
    pass

@pytest.mark.parametrize("other", [CodeRow(None, None, None)], ids=["bug"])
def test_other_program(other):
    pass
"""

INI = """
[pytest]
strict = true
pythonpath = .
testpaths = tests
tilecheck_specs = my_kernels
"""

# What pytest-rerunfailures does: a test that fails is run once more, as the same item.
RERUNS = """
import pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    for last in (False, True):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        last = last or not any(report.failed for report in reports)
        for report in reports:
            report.outcome = "rerun" if report.failed and not last else report.outcome
            item.ihook.pytest_runtest_logreport(report=report)
        if last:
            return True
        item._initrequest()

def pytest_report_teststatus(report):
    if report.outcome == "rerun":
        return "rerun", "R", "RERUN"
"""

ONE, TAIL, WIDE = ROWS = ("row-scale-one-fp16", "row-scale-tail-fp16", "soft-max-wide-fp16")

LOADED = ("-p", "pytest_benchmark.plugin")


@dataclass
class FakeGpu:
    """A GPU that takes the times that it is told to: `factor` by row, of 100 us; `vendor`, of 90 us.

    again: factors of a row's next measurements, where they differ.  vendors: names.
    throttled, theirs: why the driver lowered the clock, while ours ran, and while the vendors' did.
    """

    factor: dict[str, float] = field(default_factory=dict)
    again: dict[str, list[float]] = field(default_factory=dict)
    vendor: float = 1.0
    vendors: tuple[str, ...] = ("cublas",)
    method: str = "events"
    clock: float = 1980.0
    throttled: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    impossible: tuple[str, ...] = ()
    strange: int = 0
    timed: list[str] = field(default_factory=list)
    methods: list[str | None] = field(default_factory=list)

    def time(self, spec: Any, case: Any, seed: int, method: str | None) -> bench.Timed:
        id = spec.test_id(case)
        self.timed.append(id)
        self.methods.append(method)
        if id in self.impossible:
            raise TimingError("an impossible time of 1 us: 9999 TFLOP/s are over the peak of 989.4")
        later = self.again.get(id, [])
        factor = later.pop(0) if later and self.timed.count(id) > 1 else self.factor.get(id, 1.0)
        return bench.Timed(
            self._samples(100e-6 * factor, self.throttled),
            {name: self._samples(90e-6 * self.vendor, self.theirs) for name in self.vendors},
            rates=bench.Rates(600.0, 2000.0, 0.61),
        )

    def _samples(self, median: float, throttled: tuple[str, ...]) -> Samples:
        spread = [median * (1 + 1e-4 * i) for i in range(-10, 11)]
        return Samples(tuple(spread), self.method, self.clock, 0, throttled)

    def strangers(self) -> int:
        return self.strange


class FakeDevice:
    name, arch, lost = "cuda", ARCHES["sm_90a"], None

    def describe(self) -> str:
        return "NVIDIA H200 (sm_90a)"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    made = FakeGpu()
    monkeypatch.setattr(bench, "open_bench", lambda device: (made, nullcontext()))
    monkeypatch.setattr(bench, "_cudnn", lambda: "91000")
    monkeypatch.setattr(environment, "machine", lambda: H200)
    monkeypatch.setattr(launch, "Cuda", FakeDevice)
    monkeypatch.setattr(stopwatch, "PAUSE", 0.0)
    monkeypatch.setattr(precompile, "precompile", lambda modules, jobs, arch, target: iter(()))
    return made


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> pytest.Pytester:
    """A repository with three rows of latency, on an H200."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tilecheck.__file__).parents[1]), prepend=os.pathsep)
    # By which pytest-benchmark would take a run within a worker for one of the worker's.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makefile(".ini", pytest=INI)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**{"my_kernels": SPECS, "tests/test_latency": LATENCY, "tests/test_code": CODEGEN})
    return pytester


_stored: dict[str, str] = {}  # what three runs gave, which is the same for each test


@pytest.fixture
def baseline(project: pytest.Pytester, gpu: FakeGpu) -> Path:
    """The stored times of three runs of the project."""
    folder = project.path / "baselines" / "nvidia-h200"
    if not _stored:
        paths = []
        for i, factor in enumerate((1.0, 1.002, 0.998)):
            gpu.factor = dict.fromkeys(ROWS, factor)
            path = project.path / f"run{i}.json"
            assert run(project, "-m", "latency", f"--benchmark-json={path}").ret == 0
            paths.append(path)
        runs = [read_run(path) for path in paths]
        assert all("of no known commit" in line for line in objections(runs, ROWS))  # there is no git here
        path = write_next(folder, "first", merge(runs, folder / "0001_first.json").raw)
        _stored["text"] = path.read_text()
        for each in paths:
            each.unlink()
        gpu.factor.clear()
        gpu.timed.clear()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "0001_first.json"
    path.write_text(_stored["text"])
    return path


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return project.runpytest(*LOADED, *arguments)


def compared(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return run(project, *arguments, "--benchmark-compare")


def edit(path: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def refused(result: pytest.RunResult) -> str:
    """The one line with which a run was refused."""
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    errors = [line for line in result.errlines if line]
    assert len(errors) == 1 and errors[0].startswith("ERROR: "), errors
    assert not [line for line in result.outlines if "collected" in line or "passed" in line]
    return errors[0]


def summary(result: pytest.RunResult) -> str:
    """The part of the output that is about latency, and whatever follows."""
    return str(result.stdout).partition("tilecheck: latency")[2]


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    found = result.parseoutcomes()
    return {name: count for name, count in found.items() if name not in ("deselected", "warnings", "warning")}


class TestSelection:
    def test_a_plain_run_leaves_the_rows_out_and_says_so(
        self, project: pytest.Pytester, gpu: FakeGpu
    ) -> None:
        result = run(project)
        result.assert_outcomes(passed=2, deselected=3)
        result.stdout.fnmatch_lines(
            "3 latency rows not timed, as nobody asked: pytest -m latency times them*"
        )
        assert gpu.timed == []
        assert not (project.path / "baselines").exists()

    @pytest.mark.parametrize("marks", ["not codegen", "not latency", "correctness"])
    def test_so_does_one_with_other_marks(self, project: pytest.Pytester, gpu: FakeGpu, marks: str) -> None:
        run(project, "-m", marks)
        assert gpu.timed == []

    def test_asked_for_by_mark_they_are_timed_and_compared_with_nothing(
        self, project: pytest.Pytester, gpu: FakeGpu
    ) -> None:
        result = run(project, "-m", "latency")
        result.assert_outcomes(passed=3, deselected=2)
        assert gpu.timed == list(ROWS)
        result.stdout.fnmatch_lines(
            [
                "tilecheck latency: NVIDIA H200, compared with nothing, --gate=normal",
                "row * median  over vendor  vendor  roofline  verdict",
                "row-scale-one-fp16 *100 us *1.111  cublas * 61 %",
            ]
        )
        assert not (project.path / "baselines").exists()

    @pytest.mark.filterwarnings("ignore:Can't compare")  # of code, with which pytest-benchmark is left alone
    def test_a_comparison_selects_them_unless_marks_say_otherwise(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        compared(project).assert_outcomes(passed=3, deselected=2)
        compared(project, "-m", "latency or codegen").assert_outcomes(passed=4, deselected=1)
        compared(project, "-m", "not codegen").assert_outcomes(passed=4, deselected=1)
        compared(project, "-m", "codegen").assert_outcomes(passed=1, deselected=4)

    def test_workers_of_xdist_leave_them_out_too(self, project: pytest.Pytester) -> None:
        result = run(project, "-p", "xdist", "-n1", "--device=simulator")
        assert outcomes(result) == {"passed": 2}
        result.stdout.fnmatch_lines("3 latency rows not timed, as nobody asked*")

    def test_all_are_compiled_before_the_first_is_timed(
        self, project: pytest.Pytester, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen: list[Any] = []

        def compile_all(modules: Any, jobs: Any, arch: Any, target: Any) -> Any:
            seen.append((list(modules), [f"{j.kernel}:{j.case}" for j in jobs], arch, target["arch"]))
            assert gpu.timed == []
            return iter(())

        monkeypatch.setattr(precompile, "precompile", compile_all)
        run(project, "-m", "latency", "-k", "one or wide").assert_outcomes(passed=2, deselected=3)
        assert seen == [(["my_kernels"], ["row_scale:one-fp16", "soft_max:wide-fp16"], "sm_90a", "sm_90a")]


class TestWithoutGpu:
    @pytest.fixture(autouse=True)
    def _bare(self, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(environment, "machine", lambda: BARE)

    def test_the_rows_of_code_run_instead_and_nothing_else_that_compiles(
        self, project: pytest.Pytester
    ) -> None:
        project.makepyfile(**{"tests/test_rows_of_code": ROWS_OF_CODE})
        result = compared(project)
        # Three cases on each architecture, and what is stored of each.
        result.assert_outcomes(passed=3 * len(ARCHES) + len(ARCHES), deselected=4)
        result.stdout.fnmatch_lines(
            [
                "tilecheck latency: needs a GPU, nothing is timed (no NVIDIA driver*); running the rows of "
                "code instead, against stored facts",
                "3 latency rows not timed: no NVIDIA driver*",
            ]
        )
        assert not [line for line in result.errlines if "Can't compare" in line]

    @pytest.mark.parametrize(
        ("there", "options"),
        [
            (True, ("--benchmark-compare",)),
            (False, ("--benchmark-compare",)),
            (False, ("-m", "codegen", "--update-facts")),
            (False, ("-m", "codegen")),
        ],
    )
    def test_where_no_test_is_of_code_it_says_how_to_get_some(
        self, project: pytest.Pytester, there: bool, options: tuple[str, ...]
    ) -> None:
        if there:
            project.makepyfile(**{"tests/test_rows_of_code": ROWS_OF_CODE})
        else:
            (project.path / "tests/test_code.py").write_text("def test_other(): pass\n")
        result = run(project, *options)
        line = "no test of code here; this writes them: tilecheck init --codegen"
        assert result.outlines.count(line) == (not there)
        assert result.ret == (pytest.ExitCode.OK if there else pytest.ExitCode.NO_TESTS_COLLECTED)

    def test_so_on_the_simulator_of_a_gpu_host(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "machine", lambda: H200)
        project.makepyfile(**{"tests/test_rows_of_code": ROWS_OF_CODE})
        result = compared(project, "--device=simulator", "-k", "wide")
        result.assert_outcomes(passed=len(ARCHES), deselected=3 * len(ARCHES) + 4)
        result.stdout.fnmatch_lines("3 latency rows not timed: this run is on the simulator")

    def test_require_gpu_refuses(self, project: pytest.Pytester) -> None:
        assert "--require-gpu: no NVIDIA driver" in refused(compared(project, "--require-gpu"))

    @pytest.mark.parametrize("comparing", [(), ("--benchmark-compare",)])
    def test_by_mark_the_rows_are_skipped_with_the_reason(
        self, project: pytest.Pytester, comparing: tuple[str, ...]
    ) -> None:
        result = run(project, "-m", "latency", "-rs", *comparing)
        result.assert_outcomes(skipped=1, deselected=2)
        result.stdout.fnmatch_lines(
            ["3 latency rows not timed: no NVIDIA driver*", "SKIPPED*latency needs a GPU: no NVIDIA driver*"]
        )

    def test_only_benchmarks_does_not_mean_to_skip_the_codegen_gate(self, project: pytest.Pytester) -> None:
        result = run(project, "--benchmark-only")
        result.assert_outcomes(skipped=3)
        result.stdout.fnmatch_lines("3 latency rows not timed: no NVIDIA driver*")
        project.makepyfile(**{"tests/test_rows_of_code": ROWS_OF_CODE})
        compared(project, "--benchmark-only").assert_outcomes(passed=4 * len(ARCHES), deselected=4)

    def test_workers_skip_them_with_the_reason_too(
        self, project: pytest.Pytester, capfd: pytest.CaptureFixture[str]
    ) -> None:
        result = run(project, "-p", "xdist", "-n1", "-m", "latency", "-rs", "--device=simulator")
        assert outcomes(result) == {"skipped": 1}
        result.stdout.fnmatch_lines("SKIPPED*latency needs a GPU: this run is on the simulator*")
        # As if they had been asked for; the worker says it, past what is captured of this process.
        assert "Benchmarks are automatically disabled" not in capfd.readouterr().err

    def test_other_marks_are_kept(self, project: pytest.Pytester) -> None:
        result = compared(project, "-m", "not codegen")
        result.assert_outcomes(passed=1, skipped=1, deselected=1)
        result.stdout.fnmatch_lines("3 latency rows not timed: no NVIDIA driver*")

    def test_a_plain_run_leaves_them_out(self, project: pytest.Pytester) -> None:
        result = run(project)
        result.assert_outcomes(passed=2, deselected=1)
        result.stdout.fnmatch_lines("3 latency rows not timed, as nobody asked*")


class TestVerdicts:
    def test_what_is_the_same_passes(self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu) -> None:
        gpu.factor = {ONE: 1.01, TAIL: 0.99}
        gpu.methods.clear()
        result = compared(project)
        result.assert_outcomes(passed=3, deselected=2)
        assert gpu.methods == ["events"] * 3  # as they were
        assert result.ret == 0
        result.stdout.fnmatch_lines(
            [
                "tilecheck latency: NVIDIA H200, against baselines/nvidia-h200/0001_first.json, --gate=*",
                "row-scale-one-fp16 *101 us *1.122  cublas * 61 %  same (+1.0 %)",
                "row-scale-tail-fp16 *99 us *1.100  cublas * 61 %  same (-1.0 %)",
            ]
        )

    def test_a_kernel_slowed_down_fails_with_all_numbers(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.factor = {TAIL: 1.05}
        result = compared(project, "--junitxml=junit.xml")
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        assert result.ret == 1
        result.stdout.fnmatch_lines(
            [
                "*row-scale-tail-fp16 on NVIDIA H200 is slower: slower in time, and against cublas (measured "
                "3 times)",
                "*100 us -> 105 us, +5.0 %, band 1.5 %; over cublas 1.111 -> 1.167, +5.0 %, band 1.5 %; "
                "clock 1980 MHz -> 1980 MHz",
                "*smallest slowdown that this row can find: 2.2 %",
                "*baseline: baselines/nvidia-h200/0001_first.json",
                '*repeat: pytest "tests/test_latency.py::test_latency?row-scale-tail-fp16?" '
                "--benchmark-compare=0001",
            ]
        )
        assert gpu.timed.count(TAIL) == 3
        suite = ElementTree.parse(project.path / "junit.xml").getroot().find("testsuite")
        assert suite is not None and suite.get("failures") == "1" and suite.get("errors") == "0"
        failure = suite.find("testcase/failure")
        assert failure is not None and "100 us -> 105 us, +5.0 %" in str(failure.text)

    def test_the_command_that_repeats_it_does(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.factor = {TAIL: 1.05}
        test = f"tests/test_latency.py::test_latency[{TAIL}]"
        run(project, test, "--benchmark-compare=0001").assert_outcomes(failed=1)

    def test_a_disturbance_that_passes_does_not_fail(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.factor, gpu.again = {TAIL: 1.05}, {TAIL: [1.0]}
        result = compared(project)
        result.assert_outcomes(passed=3, deselected=2)
        assert gpu.timed.count(TAIL) == 2
        result.stdout.fnmatch_lines("row-scale-tail-fp16 *same (*")

    @pytest.mark.parametrize(
        ("slowdown", "failed"), [(1.01, 0), (1.02, 1), (1.03, 1), (1.05, 1), (1.1, 1), (100.0, 1)]
    )
    @pytest.mark.parametrize("mode", ["normal", "strict"])
    def test_one_percent_is_left_alone_and_two_are_found(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, slowdown: float, failed: int, mode: str
    ) -> None:
        gpu.factor = {TAIL: slowdown}
        result = compared(project, f"--gate={mode}")
        assert outcomes(result) == {"passed": 3 - failed} | ({"failed": 1} if failed else {})

    @pytest.mark.parametrize(("mode", "failed"), [("normal", 0), ("strict", 1), ("off", 0)])
    def test_faster_is_stale_and_fails_under_strict(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, mode: str, failed: int
    ) -> None:
        gpu.factor = {WIDE: 0.9}
        result = compared(project, f"--gate={mode}")
        assert outcomes(result).get("failed", 0) == failed
        result.stdout.fnmatch_lines(
            [
                "soft-max-wide-fp16: faster: *100 us -> 90 us, -10.0 %*",
                "1 latency row faster than the baseline, which is stale: *tilecheck promote*",
            ]
        )

    @pytest.mark.parametrize(("mode", "failed"), [("normal", 0), ("strict", 3), ("off", 0)])
    @pytest.mark.parametrize(
        ("machine", "reason"),
        [
            ({"clock": 1800.0}, "at another clock*clock 1980 MHz -> 1800 MHz"),
            ({"throttled": ("temperature",)}, "the driver lowered the clock (temperature)*"),
            ({"method": "graph64"}, "taken differently: timed by graph64, and the baseline by events*"),
            (
                {"factor": dict.fromkeys(ROWS, 1.1), "vendor": 1.1},
                "slower in time, but not against cublas, so it may be the machine*",
            ),
        ],
        ids=["clock", "throttled", "method", "machine"],
    )
    def test_inconclusive_never_passes_silently_and_fails_under_strict(
        self,
        project: pytest.Pytester,
        baseline: Path,
        gpu: FakeGpu,
        machine: dict[str, Any],
        reason: str,
        mode: str,
        failed: int,
    ) -> None:
        for name, value in machine.items():
            setattr(gpu, name, value)
        result = compared(project, f"--gate={mode}")
        assert outcomes(result).get("failed", 0) == failed
        result.stdout.fnmatch_lines(
            [
                f"row-scale-one-fp16: inconclusive: {reason}",
                "3 latency rows inconclusive, which is no pass: run again on an idle GPU",
            ]
        )

    @pytest.mark.parametrize("mode", ["normal", "off"])
    def test_a_limit_of_the_users_fails_the_row_and_not_the_end_of_the_run(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, mode: str
    ) -> None:
        gpu.factor = {TAIL: 0.9}
        edit(baseline, lambda c: c["benchmarks"][1]["stats"].update(min=80e-6))
        result = compared(
            project, "--benchmark-compare-fail=min:5%", f"--gate={mode}", "--junitxml=junit.xml"
        )
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        assert result.ret == 1
        result.stdout.fnmatch_lines(
            [
                "*row-scale-tail-fp16 fails by --benchmark-compare-fail: Field 'min' has failed Percentage*",
                "*repeat: pytest *--benchmark-compare=0001",
            ]
        )
        suite = ElementTree.parse(project.path / "junit.xml").getroot().find("testsuite")
        assert suite is not None and suite.get("failures") == "1"
        assert compared(project, "--benchmark-compare-fail=median:5%").ret == 0

    def test_a_limit_of_the_users_still_binds_what_others_time(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        project.makepyfile(
            **{
                "tests/test_theirs": "import pytest\n\n@pytest.mark.latency\ndef test_theirs(benchmark):\n"
                "    benchmark(int)\n"
            }
        )

        def add(content: Any) -> None:
            stats = {**content["benchmarks"][0]["stats"], "median": 1e-30}
            theirs = {"fullname": "tests/test_theirs.py::test_theirs", "extra_info": {}, "stats": stats}
            content["benchmarks"].append(theirs)

        edit(baseline, add)
        result = compared(project, "--benchmark-compare-fail=median:5%")
        result.stderr.fnmatch_lines("*PerformanceRegression: Performance has regressed.")

    def test_off_shows_a_slower_row_and_fails_nothing(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.factor = {ONE: 1.5}
        edit(baseline, lambda c: c["benchmarks"].pop())
        result = compared(project, "--gate=off")
        assert result.ret == 0
        result.stdout.fnmatch_lines(["row-scale-one-fp16 *slower (+50.0 %)", "soft-max-wide-fp16 *new"])

    def test_a_vendor_that_was_throttled_is_nothing_to_compare_with(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.theirs = ("power cap", "temperature")
        result = compared(project, "--gate=strict")
        assert result.ret == 1
        result.stdout.fnmatch_lines("*inconclusive: cublas: the driver lowered the clock (temperature)*")
        gpu.theirs = ("power cap",)  # which is named near it, at the full clock too
        assert compared(project, "--gate=strict").ret == 0

    def test_a_noisy_row_has_a_wider_band(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.factor = {ONE: 1.05, TAIL: 1.05}
        edit(baseline, lambda c: c["benchmarks"][0]["extra_info"].update(noise=0.02, ratio_noise=0.02))
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines(
            ["row-scale-one-fp16 *same (+5.0 %)", "row-scale-tail-fp16 *slower (+5.0 %)"]
        )

    def test_rows_that_find_only_large_slowdowns_are_told_of(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        edit(baseline, lambda c: c["benchmarks"][0]["extra_info"].update(noise=0.02))
        compared(project).stdout.fnmatch_lines(
            "1 latency row would pass a slowdown of 4 %, as the noise is large, or was never measured; "
            "row-scale-one-fp16 finds it from 6.6 % on"
        )
        edit(baseline, lambda c: c["benchmarks"][0]["extra_info"].update(noise=0.001))
        compared(project).stdout.no_fnmatch_line("*would pass a slowdown*")

    @pytest.mark.parametrize("vendors", [("eager",), ()])
    def test_a_vendor_that_is_gone_is_told_of(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, vendors: tuple[str, ...]
    ) -> None:
        line = "3 latency rows without cublas, whose ratio the baseline knows*"
        compared(project).stdout.no_fnmatch_line(line)
        gpu.vendors = vendors
        result = compared(project)
        result.assert_outcomes(passed=3, deselected=2)
        result.stdout.fnmatch_lines(line)

    def test_an_impossible_time_is_an_error(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.impossible = (ONE,)
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines("*row-scale-one-fp16 was not timed: an impossible time of 1 us*")

    def test_another_toolchain_is_gated_labelled_and_leaves_the_ratio_out(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dataclasses import replace

        gpu.factor, gpu.vendor = {ONE: 1.05}, 1.05
        newer = replace(H200, torch="2.12.0", driver="590.1")
        monkeypatch.setattr(environment, "machine", lambda: newer)
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines(
            [
                "*is slower: slower in time; the vendor's libraries are others*",
                "*baseline: *; toolchain changed: driver 580.65 -> 590.1, torch 2.11.0 -> 2.12.0",
                "toolchain changed: driver 580.65 -> 590.1, torch 2.11.0 -> 2.12.0",
            ]
        )

    def test_another_driver_alone_leaves_the_ratio_in(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dataclasses import replace

        gpu.factor = {ONE: 1.05}
        monkeypatch.setattr(environment, "machine", lambda: replace(H200, driver="590.1"))
        compared(project).stdout.fnmatch_lines("*is slower: slower in time, and against cublas*")


class TestStoredTimesEdited:
    def test_a_lowered_median_fails_its_row(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        edit(baseline, lambda c: c["benchmarks"][1]["stats"].update(median=80e-6))
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines("*row-scale-tail-fp16 on NVIDIA H200 is slower*")

    def test_a_deleted_row_fails_as_new(self, project: pytest.Pytester, baseline: Path) -> None:
        edit(baseline, lambda c: c["benchmarks"].pop(0))
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines(
            "*row-scale-one-fp16 has no time in baselines/nvidia-h200/0001_first.json: the row is new; it "
            "takes 100 us.*"
        )

    def test_a_renamed_row_fails_both_ways(self, project: pytest.Pytester, baseline: Path) -> None:
        baseline.write_text(baseline.read_text().replace("tail-fp16", "rest-fp16"))
        result = compared(project, "--junitxml=junit.xml")
        result.assert_outcomes(passed=2, failed=2, deselected=2)
        result.stdout.fnmatch_lines(
            [
                "*row-scale-tail-fp16 has no time in *: the row is new, or renamed from one of "
                "row-scale-rest-fp16; it takes*",
                "*0001_first.json has row row-scale-rest-fp16, and no kernel has it any more*",
            ]
        )
        suite = ElementTree.parse(project.path / "junit.xml").getroot().find("testsuite")
        assert suite is not None and suite.get("failures") == "2"

    def test_a_name_that_contradicts_the_rest_is_refused(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        edit(baseline, lambda c: c["benchmarks"][1].update(name="test_latency[other]"))
        assert "name is 'test_latency[other]', and by extra_info it is row" in refused(compared(project))

    def test_a_row_removed_from_the_kernels_is_an_orphan(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        project.makepyfile(my_kernels=SPECS.replace('"one", "tail"', '"one"'))
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines("*FAILED baselines/nvidia-h200/0001_first.json::row-scale-tail-fp16*")

    @pytest.mark.parametrize("text", ["", "{", '{"benchmarks": []}'], ids=["empty", "cut-off", "no-rows"])
    @pytest.mark.parametrize("comparing", ["--benchmark-compare", "--benchmark-compare=2"])
    def test_a_corrupt_newest_file_is_never_passed_over(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, text: str, comparing: str
    ) -> None:
        baseline.with_name("0002_second.json").write_text(text)
        line = refused(run(project, comparing))
        assert "--benchmark-compare: baselines/nvidia-h200/0002_second.json: " in line
        assert "mend the file, or take it back with git or remove it" in line
        assert gpu.timed == []
        run(project, "--benchmark-compare=0001").assert_outcomes(passed=3, deselected=2)


class TestFiles:
    def test_the_newest_is_compared_with_unless_another_is_named(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        newer = baseline.with_name("0002_second.json")
        shutil.copy(baseline, newer)
        edit(newer, lambda c: c["benchmarks"][0]["stats"].update(median=80e-6))
        compared(project).assert_outcomes(passed=2, failed=1, deselected=2)
        for asked in ("1", "0001", "0001_fir", str(baseline)):
            result = run(project, f"--benchmark-compare={asked}")
            result.assert_outcomes(passed=3, deselected=2)
            result.stderr.fnmatch_lines("Comparing against benchmarks from: *0001_first.json*")
        line = refused(run(project, "--benchmark-compare=0007"))
        assert "no stored times '0007' in baselines/nvidia-h200; there are 0001_first.json, 0002_" in line

    def test_another_gpu_is_refused_with_what_there_is_and_how_to_record(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from dataclasses import replace

        monkeypatch.setattr(environment, "machine", lambda: replace(H200, gpu="NVIDIA H100 80GB HBM3"))
        line = refused(compared(project))
        assert "no times of NVIDIA H100 80GB HBM3 are stored in baselines/nvidia-h100-80gb-hbm3" in line
        assert "there is nvidia-h200 (1); `tilecheck calibrate` records three runs" in line
        assert gpu.timed == []
        assert not (project.path / "baselines" / "nvidia-h100-80gb-hbm3").exists()

        copied = project.path / "baselines" / "nvidia-h100-80gb-hbm3"
        shutil.copytree(baseline.parent, copied)
        assert "holds times of NVIDIA H200, and this GPU is NVIDIA H100 80GB HBM3" in refused(
            compared(project)
        )

    @pytest.mark.parametrize("given", ["", "file://"])
    def test_empty_path_is_not_taken_for_the_current_folder(
        self, project: pytest.Pytester, given: str
    ) -> None:
        line = refused(compared(project, f"--benchmark-storage={given}"))
        assert line == "ERROR: --benchmark-storage names no folder"

    def test_nothing_stored_at_all_is_refused(self, project: pytest.Pytester) -> None:
        assert "are stored in baselines/nvidia-h200, nor of any other GPU" in refused(compared(project))

    def test_a_run_from_another_folder_finds_and_stores_the_same(
        self, project: pytest.Pytester, baseline: Path, monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu
    ) -> None:
        from dataclasses import replace

        elsewhere = project.mkdir("elsewhere")
        monkeypatch.chdir(elsewhere)
        monkeypatch.setattr(environment, "machine", lambda: replace(H200, driver="590.1"))
        gpu.factor = {TAIL: 1.05}
        result = run(
            project, "--rootdir=..", "-c", "../pytest.ini", "../tests", "--benchmark-compare",
            "--benchmark-save=here",
        )  # fmt: skip
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines('*repeat: pytest "../tests/test_latency.py::test_latency?*')
        assert sorted(path.name for path in baseline.parent.iterdir()) == [
            "0001_first.json",
            "0002_here.json",
        ]
        assert list(elsewhere.iterdir()) == []

    def test_saved_runs_lie_in_the_models_folder_and_say_nothing_of_the_host(
        self, project: pytest.Pytester, gpu: FakeGpu
    ) -> None:
        import getpass
        import platform

        gpu.strange = 1
        run(project, "-m", "latency", "--benchmark-save=first", "--benchmark-json=run.json").assert_outcomes(
            passed=3, deselected=2
        )
        path = project.path / "baselines" / "nvidia-h200" / "0001_first.json"
        for text in (path.read_text(), (project.path / "run.json").read_text()):
            content = json.loads(text)
            assert content["machine_info"] == {"gpu": "NVIDIA H200"}
            assert content["tilecheck"] == {"arch": "sm_90a", "failed": [], "strangers": 1}
            for word in (platform.node(), str(project.path), getpass.getuser(), "UNSERIALIZABLE"):
                assert not word or word not in text
        row = read_run(path).rows[ONE]
        assert (row.samples, row.method, row.clock_mhz) == (21, "events", 1980.0)
        assert row.median == pytest.approx(100e-6)
        extra = row.raw["extra_info"]
        assert extra["cycles"] == pytest.approx(198000)
        assert (extra["tflops"], extra["gbs"], extra["roofline"]) == (600.0, 2000.0, 0.61)
        assert extra["toolchain"]["tilelang"] and extra["toolchain"]["cudnn"] == "91000"
        assert row.raw["options"]["timer"] == "samples"
        assert row.raw["params"] == {"latency_case": ONE}

    def test_a_saved_run_is_the_next_ones_bar_with_a_noise_that_is_assumed(
        self, project: pytest.Pytester, gpu: FakeGpu
    ) -> None:
        run(project, "-m", "latency", "--benchmark-save=first")
        gpu.factor = {ONE: 1.02, TAIL: 1.05}
        result = compared(project, "--benchmark-save=second")
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines("*band 3.0 %*")
        gpu.factor = {ONE: 1.02, TAIL: 1.05}
        compared(project).assert_outcomes(passed=3, deselected=2)

    @pytest.mark.parametrize(
        ("now", "kept"),
        [
            ({}, {"noise", "ratio_noise", "vendor_noise", "steadiest"}),
            ({"vendors": ("eager",)}, {"noise"}),
            ({"vendors": ()}, {"noise"}),
            ({"method": "graph64"}, set()),
        ],
        ids=["same", "another-vendor", "no-vendor", "another-method"],
    )
    def test_a_run_that_is_saved_keeps_the_noise_of_what_it_timed(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, now: dict[str, Any], kept: set[str]
    ) -> None:
        for name, value in now.items():
            setattr(gpu, name, value)
        compared(project, "--benchmark-save=second")
        old, new = (read_run(path).rows[ONE] for path in (baseline, baseline.with_name("0002_second.json")))
        for name in ("noise", "ratio_noise", "vendor_noise", "steadiest"):
            assert getattr(new, name) == (
                getattr(old, name) if name in kept else "" if name == "steadiest" else None
            )
        compared(project).assert_outcomes(passed=3, deselected=2)

    def test_two_runs_one_after_the_other_are_alike(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        text = baseline.read_text()
        for _ in range(2):
            compared(project).assert_outcomes(passed=3, deselected=2)
            assert [path.name for path in baseline.parent.iterdir()] == ["0001_first.json"]
            assert baseline.read_text() == text

    def test_a_wrong_kernels_time_is_neither_taken_nor_stored(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        (project.path / "wrong-tail-fp16").touch()
        result = compared(project, "--benchmark-json=run.json", "--benchmark-save=wrong")
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines(
            ["*row 3 is wrong*", "*repeat: pytest *--device=cuda --seed=0 -m latency"]
        )
        result.stdout.no_fnmatch_line("*fixture was not used*")
        assert gpu.timed == [ONE, WIDE]
        for path in (project.path / "run.json", baseline.with_name("0002_wrong.json")):
            stored = read_run(path)
            assert list(stored.rows) == [ONE, WIDE]
            assert stored.failed == (f"tests/test_latency.py::test_latency[{TAIL}]",)

    def test_a_row_that_fails_by_its_time_alone_is_stored_and_is_no_failed_test(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        gpu.factor = {TAIL: 1.05}
        compared(project, "--benchmark-json=run.json")
        stored = read_run(project.path / "run.json")
        assert stored.failed == ()
        assert (stored.rows[TAIL].verdict, stored.rows[ONE].verdict) == ("slower", "same")

    def test_a_row_that_is_run_again_counts_as_of_its_last_time(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        project.makepyfile(reruns=RERUNS)
        gpu.factor, gpu.again = {TAIL: 1.05}, {TAIL: [1.05, 1.05, 1.0]}
        result = run(project, "-p", "reruns", "--benchmark-compare", "--benchmark-json=run.json")
        assert outcomes(result) == {"passed": 3, "rerun": 1}
        shown = [line for line in summary(result).splitlines() if line.startswith(TAIL)]
        assert len(shown) == 1 and shown[0].endswith("same (+0.0 %)")
        stored = read_run(project.path / "run.json")
        assert list(stored.rows) == list(ROWS)
        assert stored.rows[TAIL].median == pytest.approx(100e-6)

    def test_a_run_that_is_interrupted_has_the_rows_until_then(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = gpu.time

        def until_wide(spec: Any, case: Any, seed: int, method: str | None) -> bench.Timed:
            if case.id == "wide-fp16":
                raise KeyboardInterrupt
            return time(spec, case, seed, method)

        monkeypatch.setattr(gpu, "time", until_wide)
        result = project.runpytest(
            *LOADED, "--benchmark-compare", "--benchmark-json=run.json", no_reraise_ctrlc=True
        )
        assert result.ret == pytest.ExitCode.INTERRUPTED
        assert list(read_run(project.path / "run.json").rows) == [ONE, TAIL]

    def test_a_row_that_raises_fails_and_is_not_stored(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = gpu.time

        def broken(spec: Any, case: Any, seed: int, method: str | None) -> bench.Timed:
            if case.id == "tail-fp16":
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            return time(spec, case, seed, method)

        monkeypatch.setattr(gpu, "time", broken)
        compared(project, "--benchmark-json=run.json").assert_outcomes(passed=2, failed=1, deselected=2)
        stored = read_run(project.path / "run.json")
        assert list(stored.rows) == [ONE, WIDE]
        assert stored.failed == (f"tests/test_latency.py::test_latency[{TAIL}]",)

    def test_the_commit_is_that_of_the_root_folder(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def git(*arguments: str) -> None:
            command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
            subprocess.run(command, cwd=project.path, check=True, capture_output=True)

        git("init")
        git("add", "-A")
        git("commit", "-m", "all")
        elsewhere = project.mkdir("elsewhere")
        monkeypatch.chdir(elsewhere)

        def taken(name: str) -> Any:
            run(
                project, "-c", "../pytest.ini", "--rootdir=..", "../tests", "-m", "latency",
                f"--benchmark-json={name}",
            )  # fmt: skip
            return read_run(elsewhere / name)

        first = taken("a.json")
        assert len(first.commit) == 40 and not first.dirty
        (project.path / "baselines").mkdir(exist_ok=True)
        (project.path / "baselines" / "notes.txt").touch()
        (project.path / ".scratch").mkdir()
        (project.path / ".scratch" / "attempt.py").touch()
        assert not taken("b.json").dirty
        schedules = project.mkdir("other_kernels") / "schedules.json"  # what tilecheck tune writes
        schedules.write_text("{}")
        assert taken("c.json").dirty
        schedules.unlink()
        (project.path / "my_kernels.py").write_text(SPECS + "\n")
        assert taken("d.json").dirty


class TestRefusals:
    @pytest.mark.parametrize(
        "path", ["tests/test_latency.py", "tests", "tests/test_latency.py::test_latency", "tests/none.py"]
    )
    @pytest.mark.parametrize("machine", [H200, BARE], ids=["gpu", "no-gpu"])
    def test_an_eaten_path_is_named(
        self, project: pytest.Pytester, path: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "machine", lambda: machine)
        line = refused(run(project, "--benchmark-compare", path))
        assert f"--benchmark-compare took '{path}' for the number of a baseline" in line
        assert f"put it in front: pytest {path} --benchmark-compare" in line

    def test_a_number_is_none_although_there_is_such_a_folder(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        project.mkdir("0001")
        run(project, "--benchmark-compare=0001").assert_outcomes(passed=3, deselected=2)

    @pytest.mark.parametrize(
        "options",
        [
            ("--benchmark-cprofile=tottime",),
            ("--benchmark-warmup=on", "--benchmark-min-rounds=300", "--benchmark-timer=time.time"),
            ("--benchmark-group-by=param:latency_case", "--benchmark-columns=min,median"),
            ("--benchmark-only",),
            ("--benchmark-compare=",),
        ],
    )
    def test_other_options_of_pytest_benchmark_leave_the_times_as_they_are(
        self, project: pytest.Pytester, baseline: Path, options: tuple[str, ...]
    ) -> None:
        compared(project, "--benchmark-json=run.json", *options).assert_outcomes(passed=3, deselected=2)
        stored = read_run(project.path / "run.json")
        assert [row.median for row in stored.rows.values()] == pytest.approx([100e-6] * 3)
        assert {row.samples for row in stored.rows.values()} == {21}

    @pytest.mark.parametrize("arguments", [("--benchmark-compare",), ("-m", "latency")])
    def test_a_release_of_pytest_benchmark_that_is_too_old_is_named(
        self, project: pytest.Pytester, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known = environment.version
        old = {"pytest-benchmark": "5.2.3"}
        monkeypatch.setattr(environment, "version", lambda name: old.get(name) or known(name))
        line = refused(run(project, *arguments))
        assert "want pytest-benchmark 5.3 or later, and 5.2.3 is installed: pip install -U" in line
        run(project, "-m", "correctness").assert_outcomes(passed=0, deselected=5)

    def test_in_front_it_is_a_path(self, project: pytest.Pytester, baseline: Path) -> None:
        compared(project, "tests/test_latency.py").assert_outcomes(passed=3)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                ("-p", "xdist", "-n2", "--benchmark-compare"),
                "latency is timed one row after the other: leave out",
            ),
            (("-p", "xdist", "-n2", "-m", "latency"), "latency is timed one row after the other: leave out"),
            (("--benchmark-disable", "--benchmark-compare"), "--benchmark-disable: nothing would be timed"),
            (("--benchmark-disable", "-m", "latency"), "--benchmark-disable: nothing would be timed"),
            (("--benchmark-skip", "--benchmark-compare"), "--benchmark-skip: nothing would be timed"),
            (
                ("-m", "latency", "--benchmark-compare-fail=median:5%"),
                "--benchmark-compare-fail: nothing is compared; it needs --benchmark-compare",
            ),
            (("-m", "latency", "--benchmark-json=none/run.json"), "run.json: there is no folder none"),
        ],
    )
    def test_what_would_time_nothing(
        self, project: pytest.Pytester, baseline: Path, arguments: tuple[str, ...], message: str
    ) -> None:
        assert message in refused(run(project, *arguments))

    def test_a_variable_of_xdist_left_over_would_store_nothing(
        self, project: pytest.Pytester, baseline: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw0")
        assert "PYTEST_XDIST_WORKER is set" in refused(compared(project))

    def test_without_pytest_benchmark_there_is_nothing_to_time_with(self, project: pytest.Pytester) -> None:
        line = refused(project.runpytest("-m", "latency"))
        assert "stored by pytest-benchmark, which is not loaded" in line


class TestCompleteness:
    def test_with_k_the_rows_left_out_are_not_missed(
        self, project: pytest.Pytester, baseline: Path, gpu: FakeGpu
    ) -> None:
        compared(project, "-k", "soft").assert_outcomes(passed=1, deselected=4)
        assert gpu.timed == [WIDE]

    def test_with_k_orphans_are_judged_by_all_rows_that_kernels_have(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        edit(baseline, lambda c: c["benchmarks"].pop(0))  # one that is not selected
        compared(project, "-k", "soft").assert_outcomes(passed=1, deselected=4)
        project.makepyfile(my_kernels=SPECS.replace('"one", "tail"', '"one"'))
        result = compared(project, "-k", "soft")
        result.assert_outcomes(passed=1, failed=1, deselected=3)

    @pytest.mark.parametrize("stored", [True, False])
    def test_a_skipped_row_fails(self, project: pytest.Pytester, baseline: Path, stored: bool) -> None:
        project.makepyfile(
            **{
                "tests/test_latency": LATENCY.replace(
                    "    stopwatch",
                    "    if 'tail' in latency_case.id: pytest.skip('takes long')\n    stopwatch",
                )
            }
        )
        if not stored:
            edit(baseline, lambda c: c["benchmarks"].pop(1))
        result = compared(project)
        result.assert_outcomes(passed=2, failed=1, deselected=2)
        result.stdout.fnmatch_lines("*row-scale-tail-fp16 was not timed: Skipped: takes long")
        run(project, "-m", "latency").assert_outcomes(passed=2, skipped=1, deselected=2)

    def test_a_row_of_another_architecture_is_not_missed(
        self, project: pytest.Pytester, baseline: Path
    ) -> None:
        other = 'spec("blackwell", "any", arches=("sm_100a",)),\n)'
        project.makepyfile(my_kernels=SPECS.rstrip().removesuffix(")") + other)
        compared(project).assert_outcomes(passed=3, skipped=1, deselected=2)


def test_report_has_times_band_verdict_and_what_was_stored(
    project: pytest.Pytester, gpu: FakeGpu, baseline: Path
) -> None:
    preload.needed()
    gpu.factor = {TAIL: 1.08}
    compared(project, "--report=out", "-p", "no:cacheprovider")
    found = report_folder.read(project.path / "out")
    rows = {row.row: row for row in found.latency}
    assert set(rows) == set(ROWS)
    slow = rows[TAIL]
    assert (slow.verdict, slow.gpu, slow.vendor, slow.samples) == ("slower", "NVIDIA H200", "cublas", 21)
    assert slow.q1 is not None and slow.q3 is not None and slow.q1 < slow.median < slow.q3
    assert slow.old == pytest.approx(100e-6)
    assert slow.change == pytest.approx(0.08)
    assert slow.band == pytest.approx(0.015)
    assert (slow.tflops, slow.gbs, slow.roofline) == (600.0, 2000.0, 0.61)
    assert rows[ONE].verdict == "same"
    (history,) = found.history
    assert (history.gpu, {stored.row for stored in history.rows}) == ("NVIDIA H200", set(ROWS))
    (failed,) = [test for test in found.tests if test.outcome == "failed"]
    assert failed.repeat == f'pytest "tests/test_latency.py::test_latency[{TAIL}]" --benchmark-compare=0001'
    page = (project.path / "out" / "index.html").read_text()
    assert "History on NVIDIA H200" in page
