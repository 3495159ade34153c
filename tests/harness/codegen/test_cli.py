"""`tilecheck source`, `facts` and `diff-codegen`, in a project of its own whose compiler is a stand-in."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.harness.facts import HOPPER, changed
from tilecheck import codegen
from tilecheck.cli import elsewhere, main
from tilecheck.codegen import CodegenError, Facts, NoToolchain, batch, find_toolchain, store
from tilecheck.codegen.batch import Row
from tilecheck.codegen.collection import Collection, Key, parse
from tilecheck.environment import version
from tilecheck.versions import Environment, NoEnvironment

ROOT = Path(__file__).parents[3]

SPECS = """
import multiprocessing
import os
from dataclasses import dataclass

from tilecheck.spec import Case, KernelSpec


@dataclass(frozen=True)
class Schedule:
    stages: int = 3


def legal(schedule, case):
    if schedule.stages > 4:
        raise ValueError(f"stages {schedule.stages} exceed 4")
    if schedule.stages < 0 and case.id == "deadly-fp16":
        if multiprocessing.parent_process() is not None:
            os._exit(3)  # as a failed check inside a compiler does
    elif schedule.stages < 0:
        raise ValueError(f"{case.id} takes no {schedule.stages} stages")


def case(id):
    return Case(f"{id}-fp16", {"N": 64}, "float16", why="a row")


SPECS = (
    KernelSpec("row_scale", lambda N: None, lambda N: None, (case("tile"), case("tail"), case("deadly")),
               default_schedule=lambda: Schedule(), legal=legal, code_cases=("tile-fp16", "tail-fp16")),
    KernelSpec("hopper", lambda N: None, lambda N: None, (case("tile"),), arches=("sm_90a", "sm_100a")),
)
"""

TOOLCHAIN = {"tilelang": version("tilelang") or "", "nvcc": "13.0.88"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project below the current folder."""
    (tmp_path / "specs_of_cli.py").write_text(SPECS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\ntilecheck_specs = specs_of_cli\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield tmp_path
    sys.modules.pop("specs_of_cli", None)


class Stand:
    """In place of the compiler.  facts: what it gives for a row; an error is raised."""

    def __init__(self) -> None:
        self.facts: Callable[[Row], Facts] = lambda row: HOPPER
        self.rows: list[Row] = []

    def compile(self, program: SimpleNamespace) -> Facts:
        row = Row(program.spec.name, program.case.id, program.arch.name)
        self.rows.append(row)
        sys.stdout.write("chatter of a library\n")
        schedule = "" if program.schedule is None else str(program.schedule)
        return dataclasses.replace(self.facts(row), schedule=schedule)


@pytest.fixture
def compiler(project: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    stand = Stand()

    def build(spec: Any, case: Any, arch: Any, schedule: Any) -> SimpleNamespace:
        spec.check_schedule(schedule, case, arch)
        return SimpleNamespace(spec=spec, case=case, arch=arch, schedule=schedule)

    class FakeToolchain(SimpleNamespace):
        def __str__(self) -> str:
            return "nvcc 13.0.88 (wheels)"

    toolchain = FakeToolchain(fingerprint=TOOLCHAIN)
    monkeypatch.setattr(batch, "build_program", build)
    monkeypatch.setattr(batch, "facts_of", stand.compile)
    monkeypatch.setattr(codegen, "find_toolchain", lambda: toolchain)
    return stand


Told = pytest.CaptureFixture[str]


def run(told: Told, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    code = main(arguments)
    return code, *told.readouterr()


# facts


TABLE = """\
  case       arch    threads  regs  spills  shared  tensor   copies     ld/stmatrix  ld/st bits  cubin
row_scale
  tile-fp16  sm_80       256   168    8+12   66560  -        bulk 12+1  0+16         128,32/128   7392
  tile-fp16  sm_90a      256   168       0   66560  HGMMA 8  bulk 12+1  0+16         128,32/128   7392
  tail-fp16  sm_80       256   168    8+12   66560  -        bulk 12+1  0+16         128,32/128   7392
  tail-fp16  sm_90a      256   168       0   66560  HGMMA 8  bulk 12+1  0+16         128,32/128   7392
hopper
  tile-fp16  sm_90a      256   168       0   66560  HGMMA 8  bulk 12+1  0+16         128,32/128   7392

nvcc 13.0.88 (wheels)
"""


def test_table_of_facts(compiler: Stand, capfd: Told) -> None:
    other = changed(HOPPER, {"HGMMA": 0}, spill_stores=8, spill_loads=12)
    compiler.facts = lambda row: HOPPER if row.arch == "sm_90a" else other
    code, out, err = run(capfd, "facts", "--jobs", "1", "--arch", "sm_80,sm_90a")
    assert (code, out) == (0, TABLE), "hopper claims no sm_80"
    assert "chatter of a library" in err
    assert "compiling: 5 of 5 rows" in err


def test_row_that_does_not_compile_has_its_reason_and_fails(compiler: Stand, capfd: Told) -> None:
    def facts(row: Row) -> Facts:
        if row.case == "tail-fp16":
            raise CodegenError("TileLang does not lower it: " + "very " * 40 + "long reason")
        return HOPPER

    compiler.facts = facts
    code, out, _ = run(capfd, "facts", "row-scale", "--jobs", "1")
    assert code == 1
    assert "tail-fp16  sm_90a  does not compile:\n      TileLang does not lower it: very" in out
    assert max(map(len, out.splitlines())) <= 110
    assert "tile-fp16  sm_90a      256" in out


def test_json_is_all_of_standard_output(compiler: Stand, capfd: Told) -> None:
    def facts(row: Row) -> Facts:
        if row.arch == "sm_80":
            raise CodegenError("no")
        return HOPPER

    compiler.facts = facts
    arguments = ("--case", "t*", "--arch", "sm_80", "sm_90a", "--jobs", "1")
    code, out, _ = run(capfd, "facts", "row_scale", "--json", *arguments)
    assert code == 1
    content = json.loads(out)
    assert content["toolchain"] == TOOLCHAIN
    assert [(row["case"], row["arch"], row.get("error")) for row in content["rows"]] == [
        ("tile-fp16", "sm_80", "no"),
        ("tile-fp16", "sm_90a", None),
        ("tail-fp16", "sm_80", "no"),
        ("tail-fp16", "sm_90a", None),
    ]
    assert content["rows"][1]["facts"]["registers"] == 168
    rows = parse(out, "it").rows
    assert rows["row_scale", "tile-fp16", "default", "sm_80"] == "no"
    assert rows["row_scale", "tile-fp16", "default", "sm_90a"] == dataclasses.replace(
        HOPPER, schedule="Schedule(stages=3)"
    )


def test_schedule_reaches_the_compiler(compiler: Stand, capfd: Told) -> None:
    code, out, _ = run(capfd, "facts", "row_scale", "--json", "--schedule", "stages=2", "--jobs", "1")
    assert code == 0
    assert {row["facts"]["schedule"] for row in json.loads(out)["rows"]} == {"Schedule(stages=2)"}
    assert {row["variant"] for row in json.loads(out)["rows"]} == {"stages=2"}
    code, out, err = run(capfd, "facts", "row_scale", "--schedule", "stages=5")
    assert (code, out) == (2, "")
    assert "stages 5 exceed 4" in err


def test_architecture_that_no_kernel_claims(compiler: Stand, capfd: Told) -> None:
    code, out, err = run(capfd, "facts", "hopper", "--arch", "sm_80")
    assert (code, out) == (2, "")
    assert err == "tilecheck: no kernel here is for sm_80, only for sm_90a, sm_100a\n"


def test_no_compiler_is_one_line(project: Path, capfd: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise NoToolchain("no nvcc; pip install it")

    monkeypatch.setattr(codegen, "find_toolchain", missing)
    assert run(capfd, "facts") == (2, "", "tilecheck: no nvcc; pip install it\n")


def test_folder_that_cannot_be_written_is_one_line_and_no_verdict(
    compiler: Stand, capfd: Told, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    (project / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "file"))
    line = f"tilecheck: what is compiled is not kept: {project}/file/tilecheck/codegen cannot be written: "
    code, out, err = run(capfd, "facts", "hopper")
    assert (code, err.count(line)) == (0, 1) and "HGMMA 8" in out
    before = printed(project / "before.json", {"tile-fp16": HOPPER})
    code, _, err = run(capfd, "diff-codegen", before, "installed")
    assert (code, err.count(line)) == (0, 1)


def test_row_that_ends_its_process_fails_alone(compiler: Stand, capfd: Told) -> None:
    """Real processes: the spec's own function ends one, and refuses the others' schedule in words."""
    arguments = ("--case", "deadly-fp16", "tile-fp16", "tail-fp16", "--schedule", "stages=-1", "--jobs", "2")
    code, out, _ = run(capfd, "facts", "row_scale", "--json", *arguments)
    assert code == 1
    assert {row["case"]: row["error"] for row in json.loads(out)["rows"]} == {
        "deadly-fp16": "the compiler ended its process",
        "tile-fp16": "tile-fp16 takes no -1 stages",
        "tail-fp16": "tail-fp16 takes no -1 stages",
    }


# diff-codegen


def keyed(case: str, arch: str = "sm_90a") -> Key:
    return "row_scale", case, store.DEFAULT, arch


def file_of(path: Path, rows: dict[str, Facts | str], arch: str = "sm_90a", tilelang: str = "1") -> str:
    """A file as the suite stores it."""
    facts = {keyed(case, arch)[:3]: value for case, value in rows.items() if isinstance(value, Facts)}
    path.parent.mkdir(exist_ok=True)
    path.write_text(store.dump(store.Stored(arch, {"tilelang": tilelang}, facts)))
    return str(path)


def printed(path: Path, rows: dict[str, Facts | str]) -> str:
    """A file as `tilecheck facts --json` prints it."""
    content = [
        {"kernel": "row_scale", "case": case, "variant": "default", "arch": "sm_90a"}
        | ({"error": value} if isinstance(value, str) else {"facts": value.as_json()})
        for case, value in rows.items()
    ]
    path.write_text(json.dumps({"toolchain": {"tilelang": "2"}, "rows": content}))
    return str(path)


WORSE = {
    "lost copies": (changed(HOPPER, {"UTMALDG": 0, "LDG.128": 16}), "UTMALDG 12 -> 0"),
    "lost tensor cores": (changed(HOPPER, {"HGMMA": 0, "HMMA": 64}), "HGMMA 8 -> 0"),
    "spills": (changed(HOPPER, spill_stores=48, spill_loads=64), "spill stores 0 -> 48, spill loads 0 -> 64"),
    "shared memory": (changed(HOPPER, dynamic_shared=131072), "dynamic shared memory 65536 -> 131072"),
    "refusal": ("TileLang does not lower it", "compiles no more: TileLang does not lower it"),
}


@pytest.mark.parametrize("name", WORSE)
def test_what_gets_worse_fails(name: str, tmp_path: Path, capfd: Told) -> None:
    value, words = WORSE[name]
    old = file_of(tmp_path / "old.json", {"tile-fp16": HOPPER, "tail-fp16": HOPPER})
    new = printed(tmp_path / "new.json", {"tile-fp16": HOPPER, "tail-fp16": value})
    code, out, err = run(capfd, "diff-codegen", old, new)
    assert (code, err) == (1, "")
    assert "tilelang 1 -> 2" in out
    worse = out[out.index("worse ") :]
    assert worse.startswith("worse   row-scale-tail-fp16-sm_90a\n")
    assert words in " ".join(worse.split())
    assert "tile-fp16" not in worse
    summary = " ".join(out.rpartition("\n\n")[2].split())
    how = "compiles no more" if name == "refusal" else "gets worse"
    assert summary == f"2 rows: 1 worse, 1 the same. Not safe: row-scale-tail-fp16-sm_90a {how}."


@pytest.mark.parametrize(
    ("value", "counted"),
    [
        (HOPPER, "1 the same"),
        (dataclasses.replace(HOPPER, source_hash="d" * 16), "1 the same from another CUDA source"),
        (changed(HOPPER, {"total": 801}), "1 only different"),
        (changed(HOPPER, registers=96), "1 better"),
    ],
)
def test_what_gets_no_worse_passes(value: Facts, counted: str, tmp_path: Path, capfd: Told) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    file_of(old, {"tile-fp16": HOPPER})
    file_of(new, {"tile-fp16": value})
    code, out, _ = run(capfd, "diff-codegen", str(old), str(new))
    assert code == 0
    assert out.endswith(f"\n1 row: {counted}. Safe, as far as the code tells.\n")


def test_worst_comes_first_and_rows_of_one_fate_together(tmp_path: Path, capfd: Told) -> None:
    names = ("a", "b", "c", "d", "e", "f")
    old = printed(tmp_path / "old.json", dict.fromkeys(names, HOPPER))
    new = printed(
        tmp_path / "new.json",
        {
            "a": changed(HOPPER, registers=96),
            "b": changed(HOPPER, {"total": 801}),
            "c": changed(HOPPER, spill_stores=4),
            "d": changed(HOPPER, dynamic_shared=70000),
            "e": "refused",
            "f": changed(HOPPER, spill_stores=4),
        },
    )
    code, out, _ = run(capfd, "diff-codegen", old, new, "--all")
    assert code == 1
    labels = [line for line in out.splitlines() if line.startswith(("worse", "better", "differs"))]
    assert labels == [
        "worse   row-scale-e-sm_90a",
        "worse   row-scale-c-sm_90a, row-scale-f-sm_90a",
        "worse   row-scale-d-sm_90a",
        "better  row-scale-a-sm_90a",
        "differs row-scale-b-sm_90a",
    ]
    assert " ".join(out.split()).endswith(
        "Not safe: row-scale-e-sm_90a compiles no more, row-scale-c-sm_90a and 2 more get worse."
    )
    _, short, _ = run(capfd, "diff-codegen", old, new)
    assert "differs" not in short and "1 only different" in short


def test_folders_and_selection(tmp_path: Path, capfd: Told) -> None:
    for folder, value in (("old", HOPPER), ("new", changed(HOPPER, spill_stores=4))):
        for arch in ("sm_80", "sm_90a"):
            file_of(tmp_path / folder / f"{arch}.json", {"tile-fp16": value, "tail-fp16": HOPPER}, arch)
    folders = str(tmp_path / "old"), str(tmp_path / "new")
    code, out, _ = run(capfd, "diff-codegen", *folders)
    assert code == 1 and "4 rows: 2 worse" in out
    code, out, _ = run(capfd, "diff-codegen", *folders, "row-scale", "--arch", "sm_80")
    assert code == 1 and "2 rows: 1 worse" in out
    code, out, _ = run(capfd, "diff-codegen", *folders, "--case", "tail-*", "--arch", "sm_80")
    assert code == 0 and "1 row: 1 the same" in out
    code, out, err = run(capfd, "diff-codegen", *folders, "row_scal")
    assert (code, out) == (2, "") and "no kernel 'row_scal'; did you mean row_scale?" in err


def test_rows_of_one_side_only_are_named(tmp_path: Path, capfd: Told) -> None:
    old = file_of(tmp_path / "old.json", {"tile-fp16": HOPPER, "gone": HOPPER})
    new = file_of(tmp_path / "new.json", {"tile-fp16": HOPPER, "fresh": HOPPER})
    code, out, _ = run(capfd, "diff-codegen", old, new)
    assert code == 0
    assert "only in A: 1 row\n  row-scale-gone-sm_90a" in out
    assert "only in B: 1 row\n  row-scale-fresh-sm_90a" in out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "old.json is no file of facts: line 1, column 2: no JSON"),
        ("root:x:0:0::/root:/bin/bash\n", "old.json is no file of facts: line 1, column 1: no JSON"),
        ("[1]", "old.json is no file of facts: the whole is [1], no object"),
        ('{"schema": 1}', "old.json is no file of facts: the whole: arch, toolchain, facts missing"),
        ('{"schema": 99}', "old.json is no file of facts: schema is 99, and this tilecheck reads 1"),
        ('{"rows": 3}', "is not what `tilecheck facts --json` prints"),
        ('{"toolchain": {}, "rows": [{"kernel": "a"}]}', "is not what `tilecheck facts --json` prints"),
        ('{"toolchain": {}, "rows": []}', "have no row in common"),
    ],
)
def test_file_that_cannot_be_used(text: str, message: str, tmp_path: Path, capfd: Told) -> None:
    (tmp_path / "old.json").write_text(text)
    new = file_of(tmp_path / "new.json", {"tile-fp16": HOPPER})
    code, out, err = run(capfd, "diff-codegen", str(tmp_path / "old.json"), new)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and message in err
    assert "git checkout" not in err and "record" not in err, "it may be anybody's file"


def test_folder_without_facts(tmp_path: Path, capfd: Told) -> None:
    code, _, err = run(capfd, "diff-codegen", str(tmp_path), str(tmp_path))
    assert code == 2 and "there is no file of facts, as sm_90a.json, in this folder" in err


def test_two_versions(compiler: Stand, capfd: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """The installed one compiles here, the other elsewhere, and both the selected rows."""
    asked: list[tuple[str, list[Row]]] = []

    def collect(asked_version: str, root: Path, rows: list[Row], jobs: int, told: Any) -> Collection:
        asked.append((asked_version, rows))
        facts = {(row.kernel, row.case, "default", row.arch): HOPPER for row in rows}
        return Collection({"sm_90a": {**TOOLCHAIN, "tilelang": asked_version}}, dict(facts))

    monkeypatch.setattr(elsewhere, "collect_with", collect)
    compiler.facts = lambda row: changed(HOPPER, spill_stores=4) if row.kernel == "hopper" else HOPPER
    code, out, err = run(capfd, "diff-codegen", "0.1.14", "installed", "--jobs", "1")
    assert code == 1
    assert asked == [("0.1.14", compiler.rows)]
    assert [row.kernel for row in compiler.rows] == ["row_scale", "row_scale", "hopper"]
    assert f"TileLang 0.1.14 -> TileLang {TOOLCHAIN['tilelang']}" in out
    assert "worse   hopper-tile-fp16-sm_90a" in out
    assert "TileLang 0.1.14: 3 rows" in err


@pytest.mark.parametrize("other", ["installed", "{}", "{}.0"])
def test_one_version_is_not_compiled_twice(other: str, compiler: Stand, capfd: Told) -> None:
    installed = TOOLCHAIN["tilelang"]
    code, out, err = run(capfd, "diff-codegen", installed, other.format(installed), "hopper")
    assert (code, out, compiler.rows) == (2, "", [])
    assert err == f"tilecheck: A and B are both TileLang {installed}: name two versions, or a file of facts\n"


def test_file_against_a_version_takes_the_rows_of_the_file(
    compiler: Stand, tmp_path: Path, capfd: Told
) -> None:
    old = file_of(tmp_path / "sm_100a.json", {"tail-fp16": HOPPER, "no-more": HOPPER}, "sm_100a")
    code, out, _ = run(capfd, "diff-codegen", old, "installed", "--jobs", "1")
    assert code == 0
    assert compiler.rows == [Row("row_scale", "tail-fp16", "sm_100a")]
    assert "only in A: 1 row\n  row-scale-no-more-sm_100a" in out
    code, _, err = run(capfd, "diff-codegen", old, "installed", "--schedule", "stages=2")
    assert code == 2 and "--schedule is for two versions" in err


def test_version_that_cannot_be_had(compiler: Stand, capfd: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    def collect(*arguments: Any) -> None:
        raise NoEnvironment("pip failed: no such release")

    monkeypatch.setattr(elsewhere, "collect_with", collect)
    code, out, err = run(capfd, "diff-codegen", "9.9.9", "installed", "--jobs", "1")
    assert (code, out) == (2, "")
    assert err.endswith("tilecheck: pip failed: no such release\n")


# With the compiler


@pytest.fixture
def real_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    pytest.importorskip("tilelang")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path[:])


@pytest.mark.codegen
@pytest.mark.parametrize(
    ("form", "holds"),
    [
        ("--traced", "@T.prim_func"),
        ("--tir", "threadIdx.x"),
        ("--cuda", "#include <tl_templates"),
        ("--ptx", ".target sm_80"),
        ("--sass", "STG.E"),
    ],
)
def test_source_of_a_kernel(form: str, holds: str, real_compiler: None, capfd: Told) -> None:
    code, out, _ = run(capfd, "source", "vector-add", "--case", "seven-fp32", "--arch", "sm_80", form)
    assert code == 0
    assert holds in out


@pytest.mark.codegen
def test_source_follows_the_schedule(real_compiler: None, capfd: Told) -> None:
    texts = {
        run(capfd, "source", "vector-add", "--case", "seven-fp32", *arguments)[1]
        for arguments in ((), ("--schedule", "threads=64"), ("--cuda", "--schedule", "threads=64"))
    }
    assert len(texts) == 2
    assert any("__launch_bounds__(64" in text for text in texts)


@pytest.mark.codegen
def test_child_compiles_what_the_parent_does(
    real_compiler: None, tmp_path: Path, capfd: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an environment that has, as it happens, the same TileLang."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(elsewhere, "environment_with", lambda asked, told: Environment(asked, tmp_path))
    row = Row("vector_add", "seven-fp32", "sm_80")
    installed = find_toolchain().fingerprint["tilelang"]
    found = elsewhere.collect_with(installed, ROOT, [row], 1, lambda line: None)
    code, out, _ = run(capfd, "facts", "vector_add", "--case", row.case, "--arch", row.arch, "--json")
    assert code == 0
    assert found == parse(out, "it")
    with pytest.raises(NoEnvironment, match=r"imports TileLang .*, not 0\.1\.14"):
        elsewhere.collect_with("0.1.14", ROOT, [row], 1, lambda line: None)
