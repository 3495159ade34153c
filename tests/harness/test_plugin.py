"""What the plugin shows and decides, in small projects of its own whose checks are stand-ins."""

import json
import os
from pathlib import Path

import pytest
import torch

import tilecheck

# pytester drops the modules that only its runs import. torch does not load twice, and what a test replaces
# has to be what the next run sees: so they are imported here.
from tilecheck import conformance, environment, launch  # noqa: F401
from tilecheck.arches import ARCHES
from tilecheck.environment import NOT_ASKED, Machine, why_no_gpu
from tilecheck.loading import load_specs
from tilecheck.plugin.limits import SIMULATOR_FLOPS, SIMULATOR_POINTS, too_large
from tilecheck.plugin.options import option
from tilecheck.spec import Case, Cost, KernelSpec

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
from tilecheck.spec import Case, Cost, KernelSpec

def cases(*ids):
    return tuple(Case(f"{id}-fp16", {"n": n}, "float16", why="a row") for id, n in ids)

SPECS = (
    KernelSpec("row_scale", lambda n: None, lambda n: None, cases(("one", 1), ("tail", 100), ("wrong", 7))),
    KernelSpec("big", lambda n: None, lambda n: None, cases(("small", 4), ("model", 2**20)),
               cost=lambda n: Cost(1e6 * n, n)),
    KernelSpec("blackwell", lambda n: None, lambda n: None, cases(("any", 4)), arches=("sm_100a",)),
)
"""

CONFTEST = """
import pytest

pytest_plugins = ["tilecheck.plugin"]

@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    from tilecheck import conformance
    from tilecheck.oracle import Verdict
    from tilecheck.regions import Region

    def check(spec, case, device, *, seed, repeat, schedule=None, pass_configs=None):
        wrong = case.id.startswith("wrong")
        n = case.dims["n"]
        verdict = Verdict("float16", 4, Region((4,)), budget_used=n / 200, terms_used=n / 1000)
        outcome = conformance.Outcome(
            spec.name, case.id, device.arch.name, device.name, "", True, {"C": verdict}
        )
        if wrong:
            raise conformance.Mismatch(f"row 3 is wrong, drawn with {seed}\\nrepeat: {repeat}", outcome)
        return outcome

    monkeypatch.setattr(conformance, "check", check)
"""

MODULE = """
import pytest

pytestmark = pytest.mark.correctness

def test_output(kernel_case, checker):
    checker.conformance(kernel_case)
"""

INI = """
[pytest]
strict = true
pythonpath = .
testpaths = tests
tilecheck_specs = my_kernels
"""


class FakeGpu:
    name, arch, lost = "cuda", ARCHES["sm_90a"], None

    def describe(self) -> str:
        return "NVIDIA H200 (sm_90a)"


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Another repository with three kernels, on a machine without a GPU."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tilecheck.__file__).parents[1]), prepend=os.pathsep)
    # Other plugins cost a second to load, in each of these runs.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(environment, "machine", lambda: BARE)
    monkeypatch.setattr(launch, "Cuda", FakeGpu)
    pytester.makefile(".ini", pytest=INI)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**{"my_kernels": SPECS, "tests/test_correctness": MODULE})
    return pytester


def lines_of(result: pytest.RunResult, text: str) -> list[str]:
    return [line for line in result.outlines if text in line]


def repeat_commands(result: pytest.RunResult) -> set[str]:
    """What follows `repeat: pytest ` in the output, each command once."""
    return {line.partition("repeat: pytest ")[2] for line in lines_of(result, "repeat: pytest ")}


class TestParametrization:
    def test_ids_are_kernel_and_case(self, project: pytest.Pytester) -> None:
        result = project.runpytest("--collect-only", "-q")
        assert [line.rpartition("::")[2] for line in lines_of(result, "::")] == [
            "test_output[row-scale-one-fp16]",
            "test_output[row-scale-tail-fp16]",
            "test_output[row-scale-wrong-fp16]",
            "test_output[big-small-fp16]",
            "test_output[big-model-fp16]",
            "test_output[blackwell-any-fp16]",
        ]

    def test_simulated_cases_leave_out_the_large_ones(self, project: pytest.Pytester) -> None:
        project.makepyfile(test_small="def test_it(simulated_case): pass")
        result = project.runpytest("test_small.py", "--collect-only", "-q")
        assert lines_of(result, "big-small")
        assert not lines_of(result, "big-model")

    def test_collecting_needs_neither_packages_nor_gpu(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "missing_packages", lambda: "tilelang is not installed")
        assert project.runpytest("--collect-only").ret == 0
        project.makepyfile(my_kernels="import not_installed")
        result = project.runpytest()
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert result.errlines == ["ERROR: tilecheck: tilelang is not installed", ""]

    @pytest.mark.parametrize("more", [(), ("-p", "xdist", "-n1")], ids=["alone", "xdist"])
    def test_a_torch_that_cannot_be_imported_is_one_line(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
    ) -> None:
        front = project.mkdir("front")
        (front / "torch.py").write_text("raise ImportError('no libcudart')")
        monkeypatch.setenv("PYTHONPATH", f"{front}:{os.environ.get('PYTHONPATH', '')}")
        result = project.runpytest_subprocess(*more)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        told = "torch cannot be imported: ImportError: no libcudart; tilecheck doctor says what mends it"
        assert [line for line in result.errlines if line] == [f"ERROR: tilecheck: {told}"]

    @pytest.mark.parametrize(
        ("source", "words"),
        [
            ("raise OSError('libtvm.so: cannot open')", "OSError: libtvm.so: cannot open"),
            ("import not_there", "ModuleNotFoundError: No module named 'not_there'"),
            ("def (", "SyntaxError: invalid syntax (__init__.py, line 1)"),
            ("", "ModuleNotFoundError: No module named 'tilelang.language'"),
        ],
        ids=["library", "module", "syntax", "another"],
    )
    def test_a_tilelang_that_cannot_be_imported_is_one_line(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str, words: str
    ) -> None:
        """Once, before the first test, and not of each."""
        self._break_tilelang(project, monkeypatch, source)
        for more in ((), ("-p", "xdist", "-n1")):
            result = project.runpytest_subprocess("--tilecheck-device=simulator", *more)
            assert result.ret == pytest.ExitCode.USAGE_ERROR
            (line,) = [line for line in result.errlines if line]
            told = f"TileLang cannot be imported: {words}; tilecheck doctor says what mends it"
            assert line == f"ERROR: tilecheck: {told}"
            assert not lines_of(result, "Error") and not lines_of(result, "FAILED")

    def test_tests_that_import_a_broken_tilelang_say_so_once(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._break_tilelang(project, monkeypatch, "raise ImportError('no libz3')")
        project.makepyfile(**{f"tests/test_own_{n}": "import tilelang" for n in range(3)})
        device = "--tilecheck-device=simulator"
        result = project.runpytest_subprocess(
            "-k", "own", device, f"--tilecheck-report={project.path / 'out'}"
        )
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        told = "TileLang cannot be imported: ImportError: no libz3; tilecheck doctor says what mends it"
        assert [line for line in result.errlines if line] == [f"ERROR: tilecheck: {told}"]
        (run,) = json.loads((project.path / "out" / "results.json").read_text())["runs"]
        assert run["ended"] == f"refused: tilecheck: {told}"

    def test_tests_without_rows_do_without_tilelang(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._break_tilelang(project, monkeypatch, "raise ImportError('no libz3')")
        project.makepyfile(test_own="def test_it(): pass")
        device = "--tilecheck-device=simulator"
        project.runpytest_subprocess("test_own.py", device).assert_outcomes(passed=1)
        assert project.runpytest_subprocess("--collect-only", device).ret == 0

    @staticmethod
    def _break_tilelang(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
        front = project.mkdir("front")
        (front / "tilelang").mkdir()
        (front / "tilelang" / "__init__.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(front), prepend=os.pathsep)

    def test_without_specs_a_test_says_so_and_the_plugin_is_silent(self, project: pytest.Pytester) -> None:
        result = project.runpytest("-o", "tilecheck_specs=")
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines("*tilecheck_specs names no specs*")
        assert not lines_of(result, "simulat")


class TestSpecs:
    @pytest.mark.parametrize(
        ("source", "setting", "message"),
        [
            ("", "nowhere", "cannot import 'nowhere': ModuleNotFoundError: No module named 'nowhere'"),
            ("x = 1", "mine", "module 'mine' has no SPECS, and no SPEC"),
            ("x = 1", "mine:KERNEL", "module 'mine' has no KERNEL"),
            ("SPECS = 3", "mine", "mine:SPECS is 3, neither a KernelSpec nor several"),
            ("SPECS = ('softmax',)", "mine", "mine:SPECS holds 'softmax', which is no KernelSpec"),
            ("SPECS = ()", "mine", "mine:SPECS is empty; add a kernel: tilecheck new KERNEL"),
            (
                "x = 1\n1 / 0",
                "mine",
                "cannot import 'mine': ZeroDivisionError: division by zero (*mine.py:2)",
            ),
            ("x = 1\nraise SystemExit(0)", "mine", "cannot import 'mine': SystemExit: 0 (*mine.py:2)"),
            (SPECS, "my_kernels mine", "kernel 'row_scale' is in 'my_kernels' and again in 'mine'"),
            (
                "from tilecheck.spec import Case\nCase('Bad', {}, 'float16', why='x')",
                "mine",
                "cannot import 'mine': case id 'Bad' is not lower-kebab*mine.py:2)",
            ),
        ],
        ids=[
            "no-module",
            "no-specs",
            "no-name",
            "number",
            "strings",
            "empty",
            "raises",
            "exits",
            "twice",
            "wrong-case",
        ],
    )
    def test_mistake_ends_the_run_with_one_line(
        self, project: pytest.Pytester, source: str, setting: str, message: str
    ) -> None:
        project.makepyfile(mine=source)
        result = project.runpytest("-o", f"tilecheck_specs={setting}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert len(result.errlines) == 2
        result.stderr.fnmatch_lines(f"ERROR: tilecheck_specs: {message}*")

    def test_module_attribute_and_single_spec_serve(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project.makepyfile(one=SPECS + "\nSPEC = SPECS[0]\ndel SPECS", two=SPECS + "\nMINE = SPECS[1:]")
        monkeypatch.syspath_prepend(project.path)
        assert [spec.name for spec in load_specs(["one", "two:MINE"])] == ["row_scale", "big", "blackwell"]


class TestDevice:
    @pytest.mark.parametrize("options", [["--device=cuda"], ["--require-gpu"], ["--tilecheck-device=cuda"]])
    def test_missing_gpu_refuses_with_one_line_that_says_what_is_missing(
        self, project: pytest.Pytester, options: list[str]
    ) -> None:
        result = project.runpytest(*options)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert not result.outlines or not lines_of(result, "collected")
        assert len(result.errlines) == 2
        result.stderr.fnmatch_lines("ERROR: --*: no NVIDIA driver")

    def test_simulator_is_no_gpu(self, project: pytest.Pytester) -> None:
        result = project.runpytest("--device=simulator", "--require-gpu")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines("ERROR: --require-gpu refuses --device=simulator*")

    @pytest.mark.parametrize("option", ["--device=gpu", "--arch=sm_90", "--tilecheck-gate=x"])
    def test_a_value_that_is_none_is_refused_in_one_line(self, project: pytest.Pytester, option: str) -> None:
        result = project.runpytest(option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = [line for line in (*result.outlines, *result.errlines) if line]
        short = option.replace("--tilecheck-", "--")
        assert line.startswith(f"ERROR: {short}: it is one of ")

    def test_auto_takes_the_gpu_where_there_is_one(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "machine", lambda: H200)
        result = project.runpytest("-rs")
        result.assert_outcomes(passed=4, failed=1, skipped=1)  # the large case runs
        result.stdout.fnmatch_lines(
            [
                "tilecheck *: device cuda, NVIDIA H200, sm_90a, seed 0",
                "tilecheck versions: TileLang *, torch *, CUDA 12.8 (torch), driver 580.65",
                "*tilecheck: on the GPU, sm_90a*",
                "SKIPPED*blackwell is for sm_100a, and this run is for sm_90a",
            ]
        )
        assert not lines_of(result, "simulat")

    def test_arch_is_the_simulators_choice_only(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = project.runpytest("--arch=sm_100a", "-k", "blackwell")
        result.assert_outcomes(passed=1, deselected=5)
        monkeypatch.setattr(environment, "machine", lambda: H200)
        result = project.runpytest("--arch=sm_100a")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines("ERROR: --arch=sm_100a, but this GPU is sm_90a*")

    @pytest.mark.parametrize(
        ("machine", "reason"),
        [
            (Machine(), "torch is not installed"),
            (BARE, "no NVIDIA driver"),
            (
                Machine(torch="2.13.0", torch_cuda="13.0", no_driver=NOT_ASKED),
                "no NVIDIA driver found: nvidia-ml-py is not installed",
            ),
            (
                Machine(torch="2.13.0+cpu", driver="580.1", driver_cuda="13.0"),
                "torch 2.13.0+cpu is a build without CUDA",
            ),
            (
                Machine(torch="2.11.0", torch_cuda="13.0", driver="535.1", driver_cuda="12.2"),
                "torch sees no GPU (driver 535.1 supports CUDA 12.2, torch 2.11.0 wants CUDA 13.0)",
            ),
            (
                Machine(torch="2.11.0", torch_cuda="12.8", driver="580.1", driver_cuda="13.0", visible=""),
                "torch sees no GPU, and CUDA_VISIBLE_DEVICES is ''",
            ),
        ],
    )
    def test_what_is_missing(self, machine: Machine, reason: str) -> None:
        assert why_no_gpu(machine) == reason

    def test_gpu_too_old_or_without_compiler_is_named(self) -> None:
        from dataclasses import replace

        assert "NVIDIA H200: compute capability 7.5 is not supported" in str(
            why_no_gpu(replace(H200, capability=(7, 5)))
        )
        assert "nvcc" in str(why_no_gpu(replace(H200, compiler=False)))
        assert why_no_gpu(H200) is None


class TestRequireGpu:
    def test_skip_on_the_right_hardware_fails_and_lacking_hardware_does_not(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "machine", lambda: H200)
        project.makepyfile(
            test_skips="""
            import pytest

            def test_row(kernel_case):
                pytest.skip("out of luck")

            @pytest.mark.gpu
            def test_gpu():
                pytest.skip("no time")

            def test_other():
                pytest.skip("no business of the GPU")
            """
        )
        project.runpytest("test_skips.py").assert_outcomes(skipped=8)
        result = project.runpytest("test_skips.py", "--require-gpu")
        result.assert_outcomes(
            failed=6, skipped=2
        )  # blackwell's row, and the one that is no business of the GPU
        result.stdout.fnmatch_lines(["*out of luck*", "--require-gpu: a skip on the right hardware fails"])

    def test_marked_tests_skip_where_there_is_none(self, project: pytest.Pytester) -> None:
        project.makepyfile(test_gpu="import pytest\n@pytest.mark.gpu\ndef test_it(): assert False")
        result = project.runpytest("test_gpu.py", "-rs")
        result.assert_outcomes(skipped=1)
        result.stdout.fnmatch_lines("SKIPPED*needs a GPU: no NVIDIA driver*")

    @pytest.mark.parametrize(
        ("count", "options", "line"),
        [
            (1, (), "1 test wants a GPU: no NVIDIA driver"),
            (
                2,
                ("-p", "xdist", "-n1", "--device=simulator"),
                "2 tests want a GPU: this run is on the simulator",
            ),
        ],
    )
    def test_the_summary_says_why_tests_for_a_gpu_did_not_run(
        self, project: pytest.Pytester, count: int, options: tuple[str, ...], line: str
    ) -> None:
        tests = "".join(f"@pytest.mark.gpu\ndef test_{i}(): assert False\n" for i in range(count))
        project.makepyfile(test_gpu=f"import pytest\n{tests}")
        run = project.runpytest_subprocess if "xdist" in options else project.runpytest
        result = run("test_gpu.py", *options)
        result.assert_outcomes(skipped=count)
        assert result.outlines.count(line) == 1


class TestLimits:
    def test_large_case_is_skipped_with_its_size_and_the_summary_counts_it(
        self, project: pytest.Pytester
    ) -> None:
        result = project.runpytest("-rs")
        result.stdout.fnmatch_lines(
            [
                "1 case left out as too large for the simulator (over 2e+09 operations or 64 MiB)*",
                "SKIPPED*big-model-fp16 is too large for the simulator: 1e+12 operations, over 2e+09",
            ]
        )

    def test_without_cost_the_product_of_the_dims_decides(self) -> None:
        def spec(n: int, cost: float | None) -> tuple[KernelSpec, Case]:
            case = Case("row", {"m": n, "n": 1}, "float16", why="a row")
            given = None if cost is None else (lambda: Cost(cost, 0))
            return KernelSpec("any", lambda: None, lambda: None, (case,), cost=given), case

        assert too_large(*spec(SIMULATOR_POINTS, None)) is None
        assert too_large(*spec(SIMULATOR_POINTS + 1, None)) is not None
        assert too_large(*spec(SIMULATOR_POINTS + 1, SIMULATOR_FLOPS)) is None
        assert too_large(*spec(1, SIMULATOR_FLOPS * 1.01)) is not None


class TestThreads:
    def test_simulated_tests_compute_on_one(self, project: pytest.Pytester) -> None:
        project.makepyfile(
            test_threads="""
            import torch

            def test_simulated(kernel_case, checker):
                assert torch.get_num_threads() == 1

            def test_other():
                assert torch.get_num_threads() == 3
            """
        )
        before = torch.get_num_threads()
        torch.set_num_threads(3)
        try:
            result = project.runpytest("test_threads.py", "-k", "other or one-fp16")
        finally:
            torch.set_num_threads(before)
        result.assert_outcomes(passed=2)


class TestReport:
    def test_header_says_on_what(self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(environment, "version", lambda package: environment.TESTED_TILELANG)
        result = project.runpytest("--seed=3")
        result.stdout.fnmatch_lines(
            [
                "tilecheck *: device simulator on the CPU, as sm_90a (no NVIDIA driver*), seed 3",
                "tilecheck versions: TileLang *, torch *",
            ]
        )
        assert not lines_of(result, "warning:")

    def test_untested_tilelang_is_named(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(environment, "version", lambda package: "0.2.0")
        project.runpytest().stdout.fnmatch_lines(
            "tilecheck warning: TileLang 0.2.0 is not the tested 0.1.15*"
        )

    def test_summary_has_the_worst_of_each_kernel_and_says_simulated(self, project: pytest.Pytester) -> None:
        result = project.runpytest("-k", "not wrong")
        result.stdout.fnmatch_lines(
            [
                "*tilecheck: simulated, sm_90a*",
                "kernel     dtype    cases  terms used  budget used  by",
                "row_scale  float16      2  0.00..0.10         0.50  row-scale-tail-fp16",
                "big        float16      1  0.00..0.00         0.02  big-small-fp16",
                "simulated on the CPU, so no GPU conformance; not modelled: *",
            ]
        )
        assert not lines_of(result, "absolute error")
        result = project.runpytest("-v", "-k", "not wrong")
        result.stdout.fnmatch_lines("row-scale-tail-fp16        0.10         0.50               0*")

    # Where CI is set, pytest's summary repeats the whole message.
    @pytest.mark.parametrize("ci", ["", "true"])
    def test_failure_shows_the_message_and_a_command_that_repeats_it(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, ci: str
    ) -> None:
        monkeypatch.setenv("CI", ci)
        result = project.runpytest("--seed=5", "--arch=sm_80", "-k", "wrong")
        result.stdout.fnmatch_lines("E*row 3 is wrong*")
        (command,) = repeat_commands(result)
        assert command == (
            '"tests/test_correctness.py::test_output[row-scale-wrong-fp16]" '
            "--device=simulator --seed=5 --arch=sm_80"
        )
        assert not lines_of(result, "in check")  # the frames of the harness

    def test_repeat_draws_the_same_and_is_relative_to_where_pytest_was_started(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project.path / "tests")
        first = project.runpytest("--seed=5")
        (command,) = repeat_commands(first)
        assert command.startswith('"test_correctness.py::')
        again = project.runpytest(*command.replace('"', "").split())
        assert lines_of(again, "drawn with") == lines_of(first, "drawn with")
        again.assert_outcomes(failed=1)

    @pytest.mark.parametrize("id", ['a"b', "x$HOME", "`id`", "$(id)", "back\\slash", "it's", "plain"])
    def test_the_command_that_repeats_a_test_is_one_for_a_shell(
        self, project: pytest.Pytester, id: str
    ) -> None:
        body = (
            f"import pytest\n@pytest.mark.parametrize('x', [1], ids=[{id!r}])\ndef test_it(x): assert x == 2"
        )
        project.makepyfile(test_own=body)
        command = next(iter(repeat_commands(project.runpytest("test_own.py"))))
        words = project.run("bash", "-c", f"printf '%s\n' {command}").outlines
        again = project.runpytest(*words)
        again.assert_outcomes(failed=1)
        assert command.startswith('"test_own.py::test_it[plain]" ') == (id == "plain")

    def test_workers_report_to_one_header_and_one_summary(self, project: pytest.Pytester) -> None:
        result = project.runpytest_subprocess("-p", "xdist", "-n", "2", "--device=simulator")
        result.assert_outcomes(passed=3, failed=1, skipped=2)
        assert len(lines_of(result, "tilecheck versions:")) == 1
        assert len(lines_of(result, "kernel     dtype")) == 1
        result.stdout.fnmatch_lines(
            ["row_scale  float16      3 *", "big        float16      1 *", "1 case left out*"]
        )

    def test_records_reach_junit_files(self, project: pytest.Pytester) -> None:
        project.runpytest("--junitxml=out.xml", "-k", "row-scale-one")
        text = (project.path / "out.xml").read_text()
        record = json.loads(text.partition('value="')[2].partition('"')[0].replace("&quot;", '"'))
        assert (record["kernel"], record["device"], record["budget_used"]) == (
            "row_scale",
            "simulator",
            0.005,
        )


class TestOptions:
    def test_other_plugins_keep_their_options(self, project: pytest.Pytester) -> None:
        project.makeconftest(
            """
            def pytest_addoption(parser):
                parser.addoption("--device", default="theirs")
                parser.addoption("--seed", type=int, default=1)

            def pytest_report_header(config):
                return f"theirs: {config.getoption('--device')} {config.getoption('--seed')}"
            """
            + CONFTEST.replace("\n", "\n            ")
        )
        # As by the entry point, before the conftest file adds its options, and by the conftest file itself.
        for arguments in (["-p", "tilecheck.plugin"], []):
            result = project.runpytest(*arguments, "--device=mine", "--tilecheck-seed=7", "--arch=sm_80")
            result.stdout.fnmatch_lines("theirs: mine 1")
            result.stdout.fnmatch_lines("tilecheck *as sm_80*seed 7")
            result.stdout.fnmatch_lines(
                "*repeat: pytest * --tilecheck-device=simulator --tilecheck-seed=7 --arch=sm_80"
            )

    def test_short_and_long_forms_are_one_option(self, pytester: pytest.Pytester) -> None:
        config = pytester.parseconfig("-p", "tilecheck.plugin", "--seed=4", "--tilecheck-device=simulator")
        assert option(config, "seed") == 4
        assert option(config, "device") == "simulator"
        assert option(config, "require-gpu") is False

    def test_plugin_loads_neither_torch_nor_tilelang(self, project: pytest.Pytester) -> None:
        project.makeconftest(
            """
            import sys

            pytest_plugins = ["tilecheck.plugin"]

            def pytest_unconfigure():
                assert not {"torch", "tilelang"} & set(sys.modules)
            """
        )
        for arguments in (["--help"], ["--collect-only", "--device=simulator"]):
            assert project.runpytest_subprocess(*arguments).ret == 0
