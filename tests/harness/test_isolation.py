"""A check in a process of its own tells wrong kernels from ones that hang or die; the ledger expects each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tilecheck import environment, isolation
from tilecheck.isolation import Abort, Hang, Report, Wrong
from tilecheck.launch import CompileError
from tilecheck.ledger import CODEGEN, Known, read_ledger
from tilecheck.survey import survey, table

CHECKOUT = Path(__file__).parents[2]

SPECS = """
import os
import time

import tilelang.language as T

from tilecheck.launch import CompileError
from tilecheck.spec import Case, KernelSpec


def program(N):
    @T.prim_func
    def twice(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                C[i] = A[i] * 2

    return twice


def reference(A, does):
    # Stands for the kernel: the simulator itself neither hangs nor dies.
    if does == "hangs":
        time.sleep(1000)
    if does == "dies":
        print("last words", flush=True)
        os.abort()
    if does == "exits":
        os._exit(3)
    if does == "stops":
        raise CompileError("no such instruction")
    return A * (3 if does == "wrong" else 2)


KINDS = ("right", "wrong", "hangs", "dies", "exits", "stops")
SPEC = KernelSpec(
    "row", program, reference, tuple(Case(d, {"N": 32}, "float32", {"does": d}, why="it does") for d in KINDS)
)
"""

TEST = """
from tilecheck.isolation import Abort, Wrong

def test_it(kernel_case):
    if kernel_case.case.id == "dies":
        raise Abort("ended by SIGABRT")
    raise Wrong("it is wrong")
"""

INI = """
[pytest]
strict = true
pythonpath = .
tilecheck_specs = mine
tilecheck_known_issues = known.toml
"""

LEDGER = """
[[known]]
test = "row-wrong"
issue = 1
symptom = "{wrong}"
tilelang = ">=0.1"
devices = ["simulator"]

[[known]]
test = "row-dies"
issue = 2
symptom = "abort"
tilelang = "{versions}"
devices = ["simulator"]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "mine.py").write_text(SPECS)
    monkeypatch.syspath_prepend(tmp_path)
    return "mine"


def test_symptoms_are_told_apart(module: str) -> None:
    known = (Known("row-wrong", 1, "wrong", ">=0.1", ("simulator",)), Known("row-right", 2, "hang", ">=0.1"))
    rows = [f"row-{kind}" for kind in ("right", "wrong", "hangs", "dies", "exits", "stops")]
    found = {row.row: row for row in survey(module, rows, known, "simulator", jobs=2, compile_seconds=20)}
    assert {row: f.found for row, f in found.items()} == {
        "row-right": "right",
        "row-wrong": "wrong",
        "row-hangs": "hang",
        "row-dies": "abort",
        "row-exits": "abort",
        "row-stops": "compile error",
    }
    assert "row is wrong for wrong" in found["row-wrong"].message
    assert "row-hangs: no end of the compile within 20 s" in found["row-hangs"].message
    assert "row-dies: ended by SIGABRT in the compile; it said:\nlast words" in found["row-dies"].message
    assert "row-exits: ended with exit code 3" in found["row-exits"].message
    assert "no such instruction" in found["row-stops"].message
    # The ledger has the second, on this device.
    assert [line[0] for line in table(found.values()) if " expected " in line] == [*"  ****"]


def test_race_may_come_out_either_way(module: str) -> None:
    known = tuple(
        Known(f"row-{kind}", 1, "wrong", ">=0.1", ("simulator",), race="timing")
        for kind in ("right", "wrong", "stops")
    )
    rows = [entry.test for entry in known]
    found = survey(module, rows, known, "simulator", jobs=2)
    assert [row.ok for row in found] == [True, True, False]
    lines = [line for line in table(found) if " expected " in line]
    assert [line[0] for line in lines] == [*"  *"]
    assert lines[0].endswith("right          expected wrong or right")


def test_symptom_is_an_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    for symptom, error in (
        ("wrong", Wrong),
        ("hang", Hang),
        ("abort", Abort),
        ("compile error", CompileError),
    ):
        monkeypatch.setattr(isolation, "run_isolated", lambda *_, s=symptom, **__: Report(s, "what it said"))
        with pytest.raises(error, match="what it said"):
            isolation.check_isolated(["mine"], "row-right", seed=0)
    monkeypatch.setattr(isolation, "run_isolated", lambda *_, **__: Report(None))
    isolation.check_isolated(["mine"], "row-right", seed=0)


def run_with(
    tmp_path: Path, ledger: str, test: str = TEST, rows: str = "wrong or dies", device: str = "simulator"
) -> str:
    """What pytest prints over `rows` of the module's spec."""
    files = {"test_mine.py": test, "pytest.ini": INI, "known.toml": ledger}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    plugins = ["-p", "tilecheck.plugin", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-q", "-rxX", f"--device={device}", "-k", rows],
        cwd=tmp_path,
        env={**environ(), "PYTHONPATH": os.pathsep.join([str(CHECKOUT), os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return run.stdout


def environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def test_expected_failures_are_expected_in_their_way_and_version(tmp_path: Path, module: str) -> None:
    text = run_with(tmp_path, LEDGER.format(wrong="wrong", versions=">=0.1"))
    assert "2 xfailed" in text
    version = environment.version("tilelang")
    assert f"tile-ai/tilelang#2, TileLang {version}: abort" in text
    # Another symptom is no expected failure, nor is one of another version.
    text = run_with(tmp_path, LEDGER.format(wrong="hang", versions="<0.1"))
    assert "2 failed" in text


def test_entry_that_fits_no_test_is_named(tmp_path: Path, module: str) -> None:
    ledger = LEDGER.format(wrong="wrong", versions=">=0.1")
    for test, device in (("row-wrung", "simulator"), ("row-wrong-stages-9", "simulator"), ("else", "cuda")):
        ledger += f'[[known]]\ntest = "{test}"\nissue = 1\nsymptom = "wrong"\ntilelang = ""\n'
        ledger += f'devices = ["{device}"]\n'
    lines = [line for line in run_with(tmp_path, ledger).splitlines() if "known.toml: " in line]
    # The second may be a schedule that this run does not have, and the third is of another device.
    assert lines == ["known.toml: entry 3 ('row-wrung') fits no test: mend its pattern, or remove it"]


def test_row_that_is_mended_shows_itself(tmp_path: Path, module: str) -> None:
    text = run_with(
        tmp_path,
        LEDGER.format(wrong="wrong", versions=">=0.1"),
        test=TEST.replace('raise Wrong("it is wrong")', "pass"),
    )
    assert "1 failed" in text
    assert "1 xfailed" in text
    assert "XPASS(strict)" in text


def test_row_that_is_right_by_luck_is_no_failure(tmp_path: Path, module: str) -> None:
    ledger = LEDGER.format(wrong="wrong", versions=">=0.1")
    ledger = ledger.replace('symptom = "wrong"', 'symptom = "wrong"\nrace = "two stores"')
    lucky = TEST.replace('raise Wrong("it is wrong")', "pass")
    text = run_with(tmp_path, ledger, test=lucky)
    assert "1 xfailed, 1 xpassed" in text
    assert "wrong, or right by luck: two stores" in text
    # Wrong as said is as good; another failure is one.
    assert "2 xfailed" in run_with(tmp_path, ledger)
    text = run_with(tmp_path, ledger, test=TEST.replace("Wrong(", "ValueError("))
    assert "1 failed" in text


ENTRY = {"test": '"a"', "issue": "1", "symptom": '"wrong"', "tilelang": '""'}


def entry(**fields: str) -> str:
    """A table of the ledger; "": without this field."""
    return "\n".join(["[[known]]", *(f"{n} = {v}" for n, v in {**ENTRY, **fields}.items() if v), ""])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[known]", "no TOML: Expected ']]'"),
        ("known = 5", "`known` is 5, no list of tables: start each entry with [[known]]"),
        ("known = [5]", "`known` is [5], no list of tables: start each entry with [[known]]"),
        (entry().replace("[[known]]", "[known]"), "`known` is a table, no list of tables: start each"),
        (entry().replace("[[known]]", "[[knowns]]"), "'knowns' is unknown: start each entry with [[known]]"),
        (entry(test=""), "entry 1: `test` is missing: write the id of a row, or a pattern"),
        (
            entry() + entry(test='"b"', symptom="", tilelang=""),
            "entry 2 ('b'): `symptom` is missing: write",
        ),
        (entry(test="5"), "entry 1: `test` is 5: write the id of a row, or a pattern, as in"),
        (entry(test='" "'), "entry 1 (' '): `test` is ' ': write the id"),
        (entry(issue="0"), "entry 1 ('a'): `issue` is 0: write the number of the issue"),
        (entry(issue="true"), "entry 1 ('a'): `issue` is True: write the number of the issue"),
        (entry(issue='"1"'), "`issue` is '1': write the number of the issue"),
        (entry(issue="", shows='" "'), "without an issue `shows` must say what there is to report"),
        (entry(issue="", shows="5"), "`shows` is 5: write text"),
        (entry(seen="[]"), "`seen` is []: write text"),
        (entry(race="true"), "`race` is True: write text"),
        (entry(symptom='"odd"'), "`symptom` is 'odd': write one of wrong, compile error"),
        (entry(symptom="[]"), "`symptom` is []: write one of wrong"),
        (entry(tilelang='"0.1"'), "`tilelang` is '0.1': write versions as pip writes them, as in \">="),
        (entry(tilelang="0.115"), "`tilelang` is 0.115: write versions as pip writes them"),
        (entry(tilelang='[">=0.1"]'), "`tilelang` is ['>=0.1']: write versions as pip writes them"),
        (entry(devices='["gpu"]'), "`devices` is ['gpu']: write a list of some of cuda, simulator, codegen"),
        (entry(devices='"cuda"'), "`devices` is 'cuda': write a list of some of cuda"),
        (entry(devices="[]"), "`devices` is []: write a list of some of cuda"),
        (entry(arches='"sm_90a"'), "`arches` is 'sm_90a': write a list of some of sm_80, sm_89"),
        (entry(arches='["sm_9"]'), "`arches` is ['sm_9']: write a list of some of sm_80, sm_89"),
        (entry(arches="[[]]"), "`arches` is [[]]: write a list of some of"),
        (entry(device='"cuda"'), "'device' is unknown; did you mean devices?"),
        (entry(landmark="5"), "`landmark` is 5: write the id of a landmark"),
        (entry(symptom='"compile error"', race='"b"'), "a compile error is no race"),
        (entry() + entry(test='"b"') + entry(), "entry 3 ('a'): 'a' occurs twice, first in entry 1"),
        (
            entry(devices='["codegen"]'),
            "an entry of codegen is for no other device, and its symptom is one of compile error, landmark",
        ),
        (
            entry(symptom='"landmark"', devices='["codegen"]'),
            "symptom 'landmark' goes with `landmark`, the id of one",
        ),
        (entry(landmark='"no-spills"'), "symptom 'landmark' goes with `landmark`, the id of one"),
    ],
)
def test_malformed_ledger_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"known\.toml") as raised:
        read_ledger(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)
    assert message in str(raised.value)


def test_ledger_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    with pytest.raises(ValueError, match=r"^.*known\.toml: No such file or directory$"):
        read_ledger(path)
    path.write_bytes(b"# \xff")
    with pytest.raises(ValueError, match=r"^.*known\.toml: byte 2 is no UTF-8$"):
        read_ledger(path)


def test_an_entry_names_its_report_if_there_is_one() -> None:
    assert Known("row", 12, "wrong", ">=0.1").source == "tile-ai/tilelang#12"
    assert (
        Known("row", None, "wrong", ">=0.1", shows="every tail").source == "not reported to tile-ai/tilelang"
    )


def test_our_ledger_names_rows_that_there_are() -> None:
    from fnmatch import fnmatchcase

    from public_bugs import SPECS as REPORTED

    from kernels import SPECS as OURS

    rows = [spec.test_id(case) for spec in (*REPORTED, *OURS) for case in spec.cases]
    of_code = [
        f"{spec.test_id(case)}-{name}"
        for spec in (*REPORTED, *OURS)
        for case in spec.cases_of_code
        for name in spec.arches
    ]
    for entry in read_ledger(CHECKOUT / "tests" / "known_issues.toml"):
        known = of_code if entry.devices == (CODEGEN,) else rows
        assert any(fnmatchcase(row, entry.test) for row in known), entry.test
        assert entry.shows, entry.test


HANGING = """
from tilecheck import environment, isolation, launch
from tilecheck.arches import ARCHES

environment.machine = lambda: environment.Machine(
    torch="2.11", torch_cuda="13.0", driver="580", gpu="FAKE", capability=(9, 0), compiler=True
)

class FakeCuda:
    name, arch, lost = "cuda", ARCHES["sm_90a"], None

launch.Cuda = FakeCuda

def run_isolated(modules, test_id, *, device, schedule, **given):
    assert (modules, test_id, device, schedule) == (("mine",), "row-hangs", "cuda", None)
    return isolation.Report("hang", "no end of the launch")

isolation.run_isolated = run_isolated
"""


def test_known_hang_runs_in_a_process_of_its_own(tmp_path: Path, module: str) -> None:
    ledger = '[[known]]\ntest = "row-hangs"\nissue = 3\nsymptom = "hang"\ntilelang = ">=0.1"\n'
    (tmp_path / "conftest.py").write_text(HANGING)
    test = "def test_output(kernel_case, checker): checker.conformance(kernel_case)"
    text = run_with(tmp_path, ledger, test=test, rows="hangs", device="auto")
    assert "1 xfailed" in text, text
