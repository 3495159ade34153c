"""What `pytest -m codegen` decides and shows, in a small project whose compiler is a stand-in."""

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilecheck
from tests.harness.facts import AMPERE
from tests.harness.report import preload

# What the project's conftest replaces has to be what pytester's runs see: see test_plugin.py.
from tilecheck import codegen, environment, files, launch, program  # noqa: F401
from tilecheck.arches import ARCHES
from tilecheck.codegen import store
from tilecheck.environment import Machine
from tilecheck.report import folder

SPECS = """
from tilecheck.landmarks import present
from tilecheck.spec import Case, KernelSpec

def cases(*ids):
    return tuple(Case(id, {"n": 1}, "float16", why="a row") for id in ids)

def landmarks(arch):
    return [present("tensor-cores", "HMMA|HGMMA", "tensor cores"), present("copies", "LDGSTS", "copies")]

SPECS = (
    KernelSpec("matmul", lambda n: None, lambda n: None, cases("large", "small"), landmarks=landmarks,
               arches=("sm_80", "sm_90a", "sm_100a")),
    KernelSpec("copy", lambda n: None, lambda n: None, cases("any"), arches=("sm_100a",)),
)
"""

CONFTEST = """
import json
from types import SimpleNamespace

import pytest

pytest_plugins = ["tilecheck.plugin"]

@pytest.fixture(autouse=True)
def stand_ins(monkeypatch, pytestconfig):
    from tilecheck import codegen, environment, program

    compiler = json.loads((pytestconfig.rootpath / "compiler.json").read_text())

    def find_toolchain():
        if "missing" in compiler:
            raise codegen.NoToolchain(compiler["missing"])
        return SimpleNamespace(fingerprint=compiler["versions"])

    def facts_of(program, toolchain):
        with (pytestconfig.rootpath / "compiled").open("a") as log:
            log.write(program + "\\n")
        given = {**compiler["facts"], **compiler["rows"].get(program, {})}
        if "error" in given:
            raise codegen.CodegenError(given["error"])
        return codegen.Facts(**given)

    def build_program(spec, case, arch):
        return f"{spec.test_id(case)}-{arch.name}"

    monkeypatch.setattr(codegen, "find_toolchain", find_toolchain)
    monkeypatch.setattr(codegen, "facts_of", facts_of)
    monkeypatch.setattr(program, "build_program", build_program)
    monkeypatch.setattr(environment, "version", lambda package: compiler["versions"].get(package, "1"))
"""

INI = """
[pytest]
strict = true
pythonpath = .
testpaths = tests
tilecheck_specs = my_kernels
tilecheck_known_issues = known.toml
"""

FACTS = replace(AMPERE, instructions={"HMMA": 32, "LDGSTS.128": 8, "LDG.32": 1}).as_json()
VERSIONS = {"nvcc": "13.0.88", "tilelang": "0.1.15"}
NEWER = {"nvcc": "13.1.80", "tilelang": "0.1.15"}
MODULE = Path(__file__).parents[2] / "test_codegen.py"
ROWS = {
    "sm_80": ["matmul-large-sm_80", "matmul-small-sm_80"],
    "sm_90a": ["matmul-large-sm_90a", "matmul-small-sm_90a"],
    "sm_100a": ["matmul-large-sm_100a", "matmul-small-sm_100a", "copy-any-sm_100a"],
}
PART = {"matmul-large-sm_80", "matmul-large-sm_90a", "copy-any-sm_100a"}


class Project:
    """Another repository with two kernels, 7 rows of code, and a compiler that does as it is told."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.root = pytester.path
        pytester.makefile(".ini", pytest=INI)
        pytester.makeconftest(CONFTEST)
        files = {"my_kernels": SPECS, "tests/test_codegen": MODULE.read_text(), "other/conftest": ""}
        pytester.makepyfile(**files, **{"other/test_other": "def test_it(): pass"})
        self.ledger()
        self.compiler()

    def compiler(self, versions: dict[str, str] = VERSIONS, **given: Any) -> None:
        """What it makes of a row; `rows` by row id: facts that differ, or "error"; or `missing`: why."""
        content = {"versions": versions, "facts": FACTS, "rows": {}, **given}
        (self.root / "compiler.json").write_text(json.dumps(content))

    def compiles(self, row: str, **given: Any) -> None:
        self.compiler(rows={row: given})

    def ledger(self, *entries: str, symptom: str = "landmark", landmark: str = "tensor-cores") -> None:
        extra = f'landmark = "{landmark}"' if symptom == "landmark" else ""
        (self.root / "known.toml").write_text(
            "\n".join(
                f'[[known]]\ntest = "{test}"\nissue = 7\nsymptom = "{symptom}"\ntilelang = "==0.1.15"\n'
                f'devices = ["codegen"]\n{extra}'
                for test in entries
            )
        )

    def run(self, *arguments: str) -> pytest.RunResult:
        return self._pytester.runpytest("-p", "no:cacheprovider", *arguments)

    def run_all(self, *arguments: str) -> pytest.RunResult:
        return self.run("-m", "codegen", *arguments)

    def run_command(self, command: str) -> pytest.RunResult:
        name, *arguments = shlex.split(command)
        assert name == "pytest"
        return self.run(*arguments)

    def run_apart(self, *arguments: str) -> pytest.RunResult:
        options = ("-p", "xdist", "-n", "2", "-p", "no:cacheprovider", "--device=simulator")
        return self._pytester.runpytest_subprocess(*options, *arguments)

    def file(self, arch: str) -> Path:
        return store.path_of(self.root / "baselines", arch)

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.file("any").parent.glob("*.json")}

    def edit(self, arch: str, right: str, wrong: str) -> None:
        text = self.file(arch).read_text()
        assert right in text
        self.file(arch).write_text(text.replace(right, wrong))

    def compiled(self) -> set[str]:
        log = self.root / "compiled"
        rows = set(log.read_text().split()) if log.exists() else set()
        log.unlink(missing_ok=True)
        return rows


@pytest.fixture
def empty(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Without stored facts."""
    monkeypatch.setenv("PYTHONPATH", str(Path(tilecheck.__file__).parents[1]), prepend=os.pathsep)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(environment, "machine", lambda: Machine(torch="2.13.0", no_driver="none"))
    return Project(pytester)


@pytest.fixture
def project(empty: Project) -> Project:
    """With the facts of all rows stored."""
    for arch, rows in ROWS.items():
        keys = [tuple(row.removesuffix(f"-{arch}").split("-")) for row in rows]
        facts = {(kernel, case, "default"): codegen.Facts(**FACTS) for kernel, case in keys}
        store.update(empty.file(arch), arch, VERSIONS, facts)
    return empty


def lines_of(result: pytest.RunResult, text: str) -> list[str]:
    return [line for line in result.outlines if text in line]


def errors_of(result: pytest.RunResult) -> list[str]:
    """The lines that say why tests failed."""
    return [line[1:].strip() for line in result.outlines if line.startswith("E ")]


def command_after(result: pytest.RunResult, words: str) -> str:
    """What stands after these words, the same wherever they stand."""
    (command,) = {line.partition(words)[2].strip() for line in lines_of(result, words)}
    return command


class TestSelection:
    def test_ids_are_kernel_case_and_architecture_row_by_row(self, project: Project) -> None:
        result = project.run_all("--collect-only", "-q")
        rows = [row for kernel in ("matmul-large", "matmul-small") for row in _of(kernel)] + _of("copy-any")
        assert [line.rpartition("::")[2] for line in lines_of(result, "::")] == [
            *(f"{test}[{row}]" for row in rows for test in ("test_landmarks", "test_facts")),
            *(f"test_stored_rows[{arch}]" for arch in ROWS),
        ]

    def test_marker_asks_for_all_rows_and_a_plain_run_for_a_part(self, project: Project) -> None:
        project.run_all().assert_outcomes(passed=17)
        assert project.compiled() == {row for rows in ROWS.values() for row in rows}
        result = project.run()
        result.assert_outcomes(passed=9, deselected=8)
        assert project.compiled() == PART
        assert lines_of(result, "of 7 rows") == ["3 of 7 rows; all of them: pytest -m codegen"]

    @pytest.mark.parametrize(
        ("arguments", "rows"),
        [
            (["tests/test_codegen.py"], 7),
            (["tests/test_codegen.py::test_facts"], 7),
            (["tests/test_codegen.py::test_facts[matmul-small-sm_100a]"], 1),
            (["tests"], 3),
            (["tests", "-k", "matmul"], 2),
            (["-m", "not codegen"], 0),
            (["-m", "codegen and not gpu", "-k", "small"], 3),
        ],
    )
    def test_naming_asks_for_what_is_named(self, project: Project, arguments: list[str], rows: int) -> None:
        project.run(*arguments)
        assert len(project.compiled()) == rows

    def test_workers_know_what_was_named_from_another_folder(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project.root / "tests")
        project.run_apart("test_codegen.py::test_facts").assert_outcomes(passed=7)

    def test_other_folders_may_have_a_conftest(self, project: Project) -> None:
        project.run("tests", "other").assert_outcomes(passed=10, deselected=8)

    def test_last_failed_are_run_again(self, project: Project, pytester: pytest.Pytester) -> None:
        project.compiles("matmul-small-sm_100a", registers=255)
        pytester.runpytest("-m", "codegen").assert_outcomes(passed=16, failed=1)
        pytester.runpytest("--lf").assert_outcomes(failed=1)

    def test_device_does_not_matter(self, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
        project.run_all("--device=simulator", "--arch=sm_120a").assert_outcomes(passed=17)
        on_gpu(monkeypatch)
        result = project.run_all("--require-gpu")
        result.assert_outcomes(passed=17)
        assert not lines_of(result, "budget used")


def _of(kernel: str) -> list[str]:
    return [row for rows in ROWS.values() for row in rows if row.startswith(kernel)]


def on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeGpu:
        name, arch, lost = "cuda", ARCHES["sm_90a"], None

    gpu = Machine(torch="2", torch_cuda="13", driver="580", gpu="H200", capability=(9, 0), compiler=True)
    monkeypatch.setattr(environment, "machine", lambda: gpu)
    monkeypatch.setattr(launch, "Cuda", FakeGpu)


class TestWithoutCompiler:
    WHY = "no nvcc in the wheels; pip install -e '.[codegen]' brings one"

    def test_rows_skip_with_the_command_that_installs_it(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        project.compiler(missing=self.WHY)
        result = project.run_all("-rs")
        result.assert_outcomes(passed=3, skipped=14)
        result.stdout.fnmatch_lines(f"SKIPPED*: {self.WHY.replace('[', '[[]')}")
        assert lines_of(result, "7 rows not compiled: ") == [f"7 rows not compiled: {self.WHY}"]
        on_gpu(monkeypatch)
        project.run_all("--require-gpu").assert_outcomes(passed=3, skipped=14)


class TestChangedCode:
    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"instructions": {"HMMA": 32, "LDGSTS.128": 2, "LDG.32": 49}}, "LDGSTS.128 8 -> 2"),
            ({"spill_stores": 48, "registers": 255}, "spill stores 0 -> 48, registers 168 -> 255"),
            ({"dynamic_shared": 98304}, "dynamic shared memory 65536 -> 98304"),
        ],
        ids=["lost-copies", "spill", "shared-memory"],
    )
    def test_for_the_worse_fails_with_words_and_the_command_that_accepts_it(
        self, project: Project, given: dict[str, Any], words: str
    ) -> None:
        row = "matmul-small-sm_90a"
        before = project.files()
        project.compiles(row, **given)
        result = project.run_all("-k", "facts")
        result.assert_outcomes(passed=6, failed=1, deselected=10)
        result.stdout.fnmatch_lines(
            [
                "E*the code of matmul for small (n=1 float16), sm_90a, changed:",
                f"E*worse: {words}",
                f'E*accept it: pytest "tests/test_codegen.py::test_facts[[]{row}]" --update-facts',
                f'E*repeat: pytest "tests/test_codegen.py::test_facts[[]{row}]"',
                "arch     rows  compile errors  broken landmarks  changed",
                "sm_80       2               0                 0        0",
                "sm_90a      2               0                 0        1",
            ]
        )
        assert project.run_command(command_after(result, "repeat: ")).ret == 1
        assert project.files() == before
        accepted = project.run_command(command_after(result, "accept it: "))
        accepted.assert_outcomes(passed=1)
        assert any(words in line for line in lines_of(accepted, f"{row}: "))
        changed = project.files()
        assert {name for name in before if changed[name] != before[name]} == {"sm_90a.json"}
        old, new = (files["sm_90a.json"].splitlines() for files in (before, changed))
        assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
        project.run_all("-k", "not landmarks").assert_outcomes(passed=10, deselected=7)

    def test_for_the_better_and_otherwise_fails_too(self, project: Project) -> None:
        project.compiles("copy-any-sm_100a", registers=100, barriers=2, sass_hash="0")
        result = project.run_all("-k", "facts")
        result.assert_outcomes(passed=6, failed=1, deselected=10)
        result.stdout.fnmatch_lines(
            ["E*better: registers 168 -> 100", "E*other: barriers 1 -> 2, SASS changed, same counts"]
        )

    def test_source_alone_is_told_and_passes(self, project: Project) -> None:
        project.compiles("copy-any-sm_100a", source_hash="0")
        result = project.run_all()
        result.assert_outcomes(passed=17)
        result.stdout.fnmatch_lines("CUDA source changed, same SASS: copy-any-sm_100a")

    def test_code_that_does_not_compile_is_one_line(self, project: Project) -> None:
        project.compiles("copy-any-sm_100a", error="nvcc failed (exit code 1): no such type")
        result = project.run_all("-k", "copy")
        result.assert_outcomes(failed=2, deselected=15)
        result.stdout.fnmatch_lines(
            [
                "E*the code of copy for any (n=1 float16), sm_100a, does not compile:",
                "E * nvcc failed (exit code 1): no such type",
                "sm_100a     1               1                 0        0",
            ]
        )


class TestRowsOfTheFiles:
    def test_without_any_each_row_says_how_to_record_it(self, empty: Project) -> None:
        result = empty.run()
        result.assert_outcomes(passed=3, failed=6, deselected=8)
        command = 'record them: pytest "tests/test_codegen.py::test_facts[[]copy-any-sm_100a]" --update-facts'
        result.stdout.fnmatch_lines(f"E*{command}")
        result.stdout.fnmatch_lines("E*mend it: pytest tests/test_codegen.py -k sm_80 --update-facts")
        result.stdout.fnmatch_lines("E*not stored: matmul small default")
        empty.run_all("--update-facts").assert_outcomes(passed=17)
        empty.run_all().assert_outcomes(passed=17)

    def test_row_that_is_missing_fails_though_it_is_not_selected(self, project: Project) -> None:
        store.update(project.file("sm_90a"), "sm_90a", VERSIONS, {}, drop=[("matmul", "small", "default")])
        result = project.run()
        result.assert_outcomes(passed=8, failed=1, deselected=8)
        result.stdout.fnmatch_lines("E*sm_90a.json does not have the rows there are:")
        project.run_command(command_after(result, "mend it: ")).assert_outcomes(passed=5, deselected=12)
        project.run_all().assert_outcomes(passed=17)

    def test_orphans_fail_and_go_only_with_the_whole_architecture(self, project: Project) -> None:
        project.edit("sm_80", '"small"', '"tiny"')
        result = project.run_all("-k", "stored")
        result.assert_outcomes(passed=2, failed=1, deselected=14)
        result.stdout.fnmatch_lines(
            ["E*no kernel has it any more: matmul tiny default", "E*not stored: matmul small default"]
        )
        mend = command_after(result, "mend it: ")
        project.run_all("-k", "small and sm_80", "--update-facts").assert_outcomes(passed=2, deselected=15)
        assert b'"tiny"' in project.files()["sm_80.json"]
        mended = project.run_command(mend)
        mended.assert_outcomes(passed=5, deselected=12)
        mended.stdout.fnmatch_lines("*matmul tiny default, sm_80: dropped, as no kernel has it any more")
        project.run_all().assert_outcomes(passed=17)

    def test_file_of_an_architecture_that_no_kernel_is_for(self, project: Project) -> None:
        project.file("sm_75").write_text(project.file("sm_80").read_text().replace("sm_80", "sm_75"))
        result = project.run("--update-facts")
        result.assert_outcomes(passed=9, failed=1, deselected=8)
        result.stdout.fnmatch_lines("E*baselines/codegen/sm_75.json: no kernel is for sm_75 any more; *")

    @pytest.mark.parametrize("options", [[], ["--update-facts"]])
    def test_corrupt_file_is_one_line_and_stays_as_it_is(self, project: Project, options: list[str]) -> None:
        project.edit("sm_80", '"registers": 168', '"registers": "many"')
        before = project.files()
        result = project.run_all(*options)
        result.assert_outcomes(passed=14, failed=1, skipped=2)
        message = (
            "AssertionError: baselines/codegen/sm_80.json: facts: matmul: large: default: registers is "
            '"many", no integer >= 0; nothing was written to it: mend it, take it back with `git checkout '
            "-- baselines/codegen/sm_80.json`, or remove it and record its rows anew"
        )
        assert errors_of(result) == [message]
        assert project.files() == before
        rows = project.run_all("-k", "facts", "-rs", *options)  # without the test of the file
        rows.assert_outcomes(passed=5, failed=1, skipped=1, deselected=10)
        assert errors_of(rows) == [message]
        skipped = "not compared, as baselines/codegen/sm_80.json cannot be used: another test says why"
        assert len(lines_of(rows, skipped)) == 1
        one = project.run_all("-k", "test_facts and small and sm_80", *options)
        one.assert_outcomes(failed=1, deselected=16)
        assert lines_of(project.run_apart("-m", "codegen", *options), "failed, ")[-1].count("1 failed") == 1
        assert project.files() == before


class TestAnotherToolchain:
    def test_changes_are_told_and_landmarks_bind(self, project: Project) -> None:
        rows = {
            "matmul-large-sm_80": {"barriers": 2},
            "matmul-small-sm_80": {"spill_loads": 8},
            "matmul-small-sm_90a": {"instructions": {"LDGSTS.128": 8, "LDG.32": 1}},
        }
        project.compiler(NEWER, rows=rows)
        before = project.files()
        result = project.run_all()
        result.assert_outcomes(passed=15, failed=2)
        result.stdout.fnmatch_lines(
            [
                "E*no-spills: spill_stores|spill_loads is 8, at most 0 promised: *",
                "E*tensor-cores: HMMA|HGMMA is 0, at least 1 promised: tensor cores",
                "sm_80       2               0                 1        2",
                "toolchain differs: nvcc 13.0.88 -> 13.1.80; 3 of 7 rows changed:",
                "  matmul-small-sm_80: spill loads 0 -> 8",
                "  matmul-small-sm_90a: HMMA 32 -> 0",
                "  matmul-large-sm_80: barriers 1 -> 2",
            ]
        )
        assert project.files() == before

    def test_update_of_a_part_is_refused_in_one_line(self, project: Project) -> None:
        project.compiler(NEWER)
        before = project.files()
        result = project.run_all("--update-facts", "-k", "facts and small and sm_80")
        result.assert_outcomes(failed=1, deselected=16)
        assert project.compiled() == set()
        assert errors_of(result) == [
            "AssertionError: --update-facts: the facts of sm_80 are from another toolchain (nvcc 13.0.88 -> "
            "13.1.80), so record all of them together: pytest tests/test_codegen.py -k sm_80 --update-facts"
        ]
        assert project.files() == before

    def test_update_of_the_whole_takes_its_versions(self, project: Project) -> None:
        project.compiler(NEWER, rows={"matmul-small-sm_80": {"registers": 170}})
        project.edit("sm_80", '"large"', '"old"')
        before = project.files()
        result = project.run("tests/test_codegen.py", "-k", "sm_80", "--update-facts")
        result.assert_outcomes(passed=5, deselected=12)
        result.stdout.fnmatch_lines(
            [
                "--update-facts: stored:",
                "  sm_80: nvcc 13.0.88 -> 13.1.80",
                "  matmul-small-sm_80: registers 168 -> 170",
                "  matmul-large-sm_80: recorded",
                "  matmul old default, sm_80: dropped, as no kernel has it any more",
            ]
        )
        after = project.files()
        assert {name for name in before if after[name] != before[name]} == {"sm_80.json"}
        stored = store.read(project.file("sm_80"), "sm_80")
        assert stored is not None and stored.toolchain == NEWER
        project.run_all("-k", "sm_80").assert_outcomes(passed=5, deselected=12)

    def test_whole_that_fails_in_part_is_left_alone(self, project: Project) -> None:
        project.compiler(NEWER, rows={"matmul-small-sm_80": {"error": "nvcc failed"}})
        before = project.files()
        result = project.run("tests/test_codegen.py::test_facts", "-k", "sm_80", "--update-facts")
        result.assert_outcomes(passed=1, failed=1, deselected=5)
        result.stdout.fnmatch_lines(
            [
                "--update-facts: not stored:",
                "  baselines/codegen/sm_80.json: other rows are from another toolchain; record *",
            ]
        )
        assert project.files() == before

    def test_row_that_the_older_one_did_not_compile_is_no_missing_one(self, project: Project) -> None:
        project.ledger("copy-any-*", symptom="compile error")
        store.update(project.file("sm_100a"), "sm_100a", VERSIONS, {}, drop=[("copy", "any", "default")])
        project.compiler({**VERSIONS, "tilelang": "0.1.16"})  # the entry is for 0.1.15
        project.run_all().assert_outcomes(passed=17)


class TestUpdate:
    def test_without_changes_writes_nothing(self, project: Project) -> None:
        before = {path: path.stat().st_mtime_ns for path in project.file("any").parent.glob("*.json")}
        result = project.run_all("--update-facts")
        result.assert_outcomes(passed=17)
        result.stdout.fnmatch_lines("--update-facts: nothing to store")
        assert {path: path.stat().st_mtime_ns for path in before} == before

    def test_workers_report_to_one_writer(self, project: Project) -> None:
        rows = {row: {"registers": 200 + i} for i, row in enumerate(ROWS["sm_80"] + ROWS["sm_100a"])}
        project.compiler(rows=rows)
        failed = project.run_apart("-m", "codegen")
        failed.assert_outcomes(passed=12, failed=5)
        assert len(lines_of(failed, "compile errors")) == 1
        result = project.run_apart("-m", "codegen", "--update-facts")
        result.assert_outcomes(passed=17)
        assert len(lines_of(result, "registers 168 -> 20")) == 5
        for arch, ids in ROWS.items():
            stored = store.read(project.file(arch), arch)
            assert stored is not None
            registers = sorted(facts.registers for facts in stored.facts.values())
            assert registers == sorted(rows.get(row, FACTS)["registers"] for row in ids)
        project.run_all().assert_outcomes(passed=17)

    def test_file_that_cannot_be_written_fails_the_run(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any) -> None:
            raise OSError(28, "No space left on device")

        project.compiles("copy-any-sm_100a", registers=1)
        before = project.files()
        monkeypatch.setattr(files.os, "fsync", full)
        result = project.run_all("--update-facts")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines("*sm_100a.json: not written: No space left on device")
        assert project.files() == before


class TestLedger:
    def test_landmark_known_to_be_missing_is_expected_and_the_others_are_checked(
        self, project: Project
    ) -> None:
        row = "matmul-small-sm_90a"
        project.ledger(row)
        project.compiles(row, instructions={"LDGSTS.128": 8})
        result = project.run_all("-k", "landmarks", "-rx")
        result.assert_outcomes(passed=6, xfailed=1, deselected=10)
        reason = "tile-ai/tilelang#7, TileLang 0.1.15: landmark tensor-cores: HMMA|HGMMA is 0, at least 1 *"
        result.stdout.fnmatch_lines(
            ["sm_90a      2               0       1 (1 known)        0", f"XFAIL*{row}*{reason}"]
        )
        project.compiles(row, instructions={"LDGSTS.128": 8}, spill_loads=4)
        result = project.run_all("-k", "landmarks")
        result.assert_outcomes(passed=6, failed=1, deselected=10)
        result.stdout.fnmatch_lines("E*no-spills: *")
        assert not lines_of(result, "tensor-cores")
        result = project.run_all("-k", "landmarks", "--runxfail")
        result.assert_outcomes(passed=6, failed=1, deselected=10)

    def test_landmark_that_holds_after_all_fails(self, project: Project) -> None:
        project.ledger("matmul-*-sm_90a")
        result = project.run_all()
        result.assert_outcomes(passed=15, failed=2)
        result.stdout.fnmatch_lines("E*tensor-cores: now holds; remove its entry, or end it (*#7)")

    def test_landmark_that_was_never_promised_fails(self, project: Project) -> None:
        project.ledger("copy-*")
        result = project.run_all()
        result.assert_outcomes(passed=16, failed=1)
        result.stdout.fnmatch_lines(
            "E*tensor-cores: known to be missing, and never promised; there are no-sp*"
        )

    def test_entry_that_fits_no_row_is_named_once_by_a_run_that_collects_all(self, project: Project) -> None:
        project.ledger("matmul-*-sm_90", "copy-any-sm_100a", "copy-[ab]ny-*")
        message = "known.toml: entry 1 ('matmul-*-sm_90') fits no row of code: mend its pattern, or remove it"
        for result in (project.run_all("-k", "nothing"), project.run_apart("-m", "codegen")):
            assert lines_of(result, "known.toml: ")[:1] == [message]
            assert len(lines_of(result, "known.toml: entry 1")) == 1
        assert not lines_of(project.run_all("tests"), "fits no row"), "it may stand for one of another folder"
        assert not lines_of(project.run_all("--ignore", "other"), "fits no row")

    def test_landmark_that_none_of_its_rows_promises_is_named_without_a_look_at_code(
        self, project: Project
    ) -> None:
        project.ledger("copy-*", "matmul-*")
        result = project.run("-m", "not codegen")
        (line,) = lines_of(result, "known.toml: ")
        assert line.startswith("known.toml: entry 1 ('copy-*'): its rows promise no 'tensor-cores'; their ")
        assert line.endswith("landmarks: no-local-memory, no-spills, registers, shared-memory")

    def test_entry_of_another_version_of_tilelang_does_not_count(self, project: Project) -> None:
        project.ledger("matmul-*-sm_90a")
        project.compiler({**VERSIONS, "tilelang": "0.1.16"})
        project.run_all().assert_outcomes(passed=17)

    def test_row_known_not_to_compile_has_no_stored_facts(self, project: Project) -> None:
        row = "copy-any-sm_100a"
        project.ledger(row, symptom="compile error")
        project.compiles(row, error="Downcast failed")
        result = project.run_all("-rx")
        result.assert_outcomes(passed=14, failed=1, xfailed=2)  # its facts are orphans now
        result.stdout.fnmatch_lines(
            [
                "E*no kernel has it any more: copy any default",
                "sm_100a     3     1 (1 known)                 0        0",
                f"XFAIL*{row}*tile-ai/tilelang#7, TileLang 0.1.15: compile error: Downcast failed",
            ]
        )
        mended = project.run_command(command_after(result, "mend it: "))
        mended.assert_outcomes(passed=5, xfailed=2, deselected=10)
        mended.stdout.fnmatch_lines("*copy any default, sm_100a: dropped, as it is known not to compile")
        project.run_all().assert_outcomes(passed=15, xfailed=2)
        project.compiler()
        result = project.run_all()
        result.assert_outcomes(passed=15, failed=2)
        result.stdout.fnmatch_lines("E*copy for any (n=1 float16), sm_100a, now compiles:")


def test_run_that_can_keep_nothing_says_so_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.root / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.root / "file"))
    for run in (project.run_all, project.run_apart):
        (line,) = lines_of(run("-k", "sm_80"), "what is compiled is not kept: ")
        assert line.endswith("codegen cannot be written: Not a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.root))
    assert lines_of(project.run_all("-k", "sm_80"), "is not kept") == []


def test_without_specs_tests_say_so(project: Project) -> None:
    result = project.run_all("-o", "tilecheck_specs=")
    result.assert_outcomes(errors=3)
    assert not lines_of(result, "tilecheck: code")


def test_report_has_facts_landmarks_and_changes_of_each_row(project: Project) -> None:
    preload.needed()
    project.run_all("--update-facts")
    project.compiler(
        rows={"matmul-small-sm_80": {"registers": 255}, "copy-any-sm_100a": {"error": "no such type"}}
    )
    project.run_all("--report=out")
    rows = {row.row: row for row in folder.read(project.root / "out").code}
    assert len(rows) == 7
    same = rows["matmul-large-sm_90a"]
    assert (same.landmarks, same.stored, same.arch, same.kernel) == ("kept", "same", "sm_90a", "matmul")
    assert same.facts == FACTS
    changed = rows["matmul-small-sm_80"]
    assert (changed.stored, changed.severity) == ("changed", "regression")
    assert "registers 168 -> 255" in changed.words
    assert rows["copy-any-sm_100a"].error == "no such type"
    page = (project.root / "out" / "index.html").read_text()
    assert "registers 168 -&gt; 255" in page
    assert "HMMA 32" in page
