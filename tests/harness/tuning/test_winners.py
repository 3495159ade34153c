"""The file of tuned schedules, and which of them a case uses."""

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernels import SPECS
from tests.harness.tuning.fakes import SOURCE, goal, module_in
from tilecheck.arches import ARCHES, gpu_model
from tilecheck.launch import Cuda
from tilecheck.spec import KernelSpec
from tilecheck.tuning import lookup
from tilecheck.tuning.lookup import UnusedSchedule, choose, winners_file
from tilecheck.tuning.source import source_hash
from tilecheck.tuning.winners import Winner, WinnersError, read_winners, with_winner, write_winners

HOPPER = replace(ARCHES["sm_90a"], gpu="nvidia-h200")
NAMED = ARCHES["sm_90a"]


@pytest.fixture
def spec(tmp_path: Path) -> KernelSpec:
    found: KernelSpec = module_in(tmp_path).SPEC
    return found


@pytest.fixture(autouse=True)
def _every_warning_anew() -> Iterator[None]:
    lookup._warn.cache_clear()
    yield
    lookup._warn.cache_clear()


def winner(spec: KernelSpec, case: str = "long", **changed: Any) -> Winner:
    identity = goal(spec, case).identity
    entry = Winner(
        gpu="nvidia-h200",
        kernel=spec.name,
        case=case,
        arch="sm_90a",
        dims=identity.dims,
        flags=identity.flags,
        dtype=identity.dtype,
        schedule={"tile": 32, "stages": 1, "threads": 64},
        median=9e-6,
        method="graph64",
        default={"tile": 64, "stages": 2, "threads": 128},
        default_median=1e-5,
        noise=0.001,
        runner_up=None,
        runner_up_median=None,
        tried=14,
        source=identity.source,
        versions={"tilelang": "0.1.15"},
    )
    return replace(entry, **changed)


def stored(spec: KernelSpec, *winners: Winner) -> Path:
    path = winners_file(spec)
    assert path is not None
    write_winners(path, winners)
    return path


def test_what_is_written_is_read_again_sorted_and_whole(spec: KernelSpec, tmp_path: Path) -> None:
    given = (
        winner(spec, "short"),
        winner(spec),
        winner(spec, gpu="nvidia-a100", arch="sm_80", default_median=None),
    )
    path = stored(spec, *given)
    assert path == tmp_path / "schedules.json"
    assert [w.place for w in read_winners(path)] == [
        "nvidia-a100, copy, long",
        "nvidia-h200, copy, long",
        "nvidia-h200, copy, short",
    ]
    assert read_winners(path) == (given[2], given[1], given[0])
    text = path.read_text()
    write_winners(path, tuple(reversed(given)))
    assert path.read_text() == text and text.endswith("}\n")
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_a_new_winner_takes_the_place_of_the_one_before(spec: KernelSpec) -> None:
    found = with_winner((winner(spec), winner(spec, "short")), winner(spec, median=8e-6))
    assert {(w.case, w.median) for w in found} == {("long", 8e-6), ("short", 9e-6)}


def entry_of(data: Any) -> Any:
    return data["schedules"]["nvidia-h200"]["copy"]["long"]


def _swap_case(data: Any) -> None:
    cases = data["schedules"]["nvidia-h200"]["copy"]
    cases["far"] = cases.pop("long")


TAMPERED = {
    "a schedule": lambda data: entry_of(data)["schedule"].update(tile=128),
    "a time": lambda data: entry_of(data).update(median=1e-6),
    "the source": lambda data: entry_of(data).update(source="0" * 16),
    "its place": _swap_case,
}


@pytest.mark.parametrize("what", TAMPERED)
def test_an_entry_that_was_changed_by_hand_is_refused(spec: KernelSpec, what: str) -> None:
    path = stored(spec, winner(spec))
    data = json.loads(path.read_text())
    TAMPERED[what](data)
    path.write_text(json.dumps(data))
    for refused in (lambda: read_winners(path), lambda: spec.schedule_for(spec.case("long"), HOPPER)):
        with pytest.raises(WinnersError, match=r"its digest does not fit, so it was changed since") as raised:
            refused()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: entry_of(data).pop("noise"), "noise is missing, or does not belong there"),
        (lambda data: entry_of(data).update(pickle="..."), "pickle is missing, or does not belong there"),
        (lambda data: entry_of(data).update(median="fast"), "median is 'fast', not a number"),
        (lambda data: entry_of(data).update(tried=True), "tried is True, not an integer"),
        (lambda data: entry_of(data).update(schedule=[1]), r"schedule is \[1\], not a table"),
        (lambda data: data.update(form=2), "it must hold `form` 1"),
        (lambda data: data.update(schedules=[]), r"schedules is \[\], not a table"),
    ],
)
def test_a_malformed_file_is_refused_with_the_place(spec: KernelSpec, change: Any, message: str) -> None:
    path = stored(spec, winner(spec))
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(WinnersError, match=message):
        read_winners(path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[" * 100_000,
        "[]",
        '{"form": 1, "schedules": NaN}',
        '{"form": 1, "schedules": {}, "schedules": {}}',
    ],
)
def test_what_is_no_file_of_schedules_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "schedules.json"
    path.write_text(text)
    with pytest.raises(WinnersError, match=r"schedules\.json is no file of schedules"):
        read_winners(path)


@pytest.mark.parametrize("name", ["nvidia-h200", "copy", "long", "schedule", "tile"])
def test_what_a_merge_left_twice_is_refused_with_its_name(spec: KernelSpec, name: str) -> None:
    path = stored(spec, winner(spec))
    table: Any = json.loads(path.read_text())["schedules"]
    while name not in table:
        table = next(each for key, each in table.items() if key == "schedule" or len(table) == 1)
    again = f'"{name}": {json.dumps(table[name])}, '
    path.write_text(path.read_text().replace(f'"{name}":', f'{again}"{name}":', 1))
    with pytest.raises(WinnersError, match=f'an object has "{name}" twice; remove one of them'):
        read_winners(path)


def test_a_link_that_leads_to_itself_is_refused(spec: KernelSpec, tmp_path: Path) -> None:
    (tmp_path / "schedules.json").symlink_to("schedules.json")
    with pytest.raises(WinnersError, match=r"schedules\.json cannot be read: Too many levels of symbolic"):
        spec.schedule_for(spec.case("long"), HOPPER)


def test_its_own_entry_is_the_default_of_a_case(spec: KernelSpec) -> None:
    case = spec.case("long")
    assert spec.schedule_for(case, HOPPER) == spec.own_schedule(case, HOPPER)
    stored(spec, winner(spec))
    tuned = spec.schedule_for(case, HOPPER)
    assert (tuned.tile, tuned.stages, tuned.threads) == (32, 1, 64)
    assert spec.own_schedule(case, HOPPER).tile == 64


def test_entries_are_for_a_gpu_a_type_and_a_shape(spec: KernelSpec) -> None:
    stored(spec, winner(spec))

    def used(case: str, arch: Any) -> str | None:
        found = choose(spec, spec.case(case), arch)
        return None if found is None else found.how

    assert used("long", HOPPER) == "exact"
    assert used("longer", HOPPER) == "nearest"
    assert used("far", HOPPER) is None and used("half", HOPPER) is None and used("short", HOPPER) is None
    assert used("long", replace(NAMED, gpu="nvidia-h100-pcie")) is None
    assert used("long", ARCHES["sm_80"]) is None
    assert used("long", NAMED) == "exact"  # no GPU at hand: by architecture


def test_the_own_entry_comes_before_a_nearer_one_and_the_nearest_before_others(spec: KernelSpec) -> None:
    wide = {"tile": 128, "stages": 1, "threads": 64}
    stored(spec, winner(spec), winner(spec, "longer", schedule=wide))
    assert spec.schedule_for(spec.case("longer"), HOPPER).tile == 128
    stored(spec, winner(spec), replace(winner(spec, schedule=wide), case="gone", dims={"N": 1400}))
    found = choose(spec, spec.case("longer"), HOPPER)
    assert found is not None and (found.winner.case, found.how) == ("gone", "nearest")


def test_a_stale_entry_is_told_and_not_used(spec: KernelSpec, tmp_path: Path) -> None:
    stored(spec, winner(spec))
    changed = module_in(tmp_path, SOURCE.replace("if b * tile + i < last", "if b * tile + i < N")).SPEC
    case = changed.case("long")
    with pytest.warns(UnusedSchedule, match="nvidia-h200, copy, long: not used: out of date: the program"):
        assert changed.schedule_for(case, HOPPER) == changed.own_schedule(case, HOPPER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed.schedule_for(case, HOPPER)  # once is enough


@pytest.mark.parametrize(
    ("schedule", "reason"),
    [
        ({"tile": 256, "stages": 4, "threads": 64}, "refused: tile=256 times stages=4 is over 512"),
        ({"tile": 32, "stages": 1}, "refused: schedule .* lacks threads"),
        ({"tile": "32", "stages": 1, "threads": 64}, "refused: tile='32' is not of the type of tile=64"),
    ],
)
def test_a_schedule_that_is_not_legal_is_told_and_not_used(
    spec: KernelSpec, schedule: dict[str, Any], reason: str
) -> None:
    stored(spec, winner(spec, schedule=schedule))
    case = spec.case("long")
    with pytest.warns(UnusedSchedule, match=reason):
        assert spec.schedule_for(case, HOPPER) == spec.own_schedule(case, HOPPER)


def test_a_neighbours_schedule_that_is_not_legal_here_is_passed_over(spec: KernelSpec) -> None:
    stored(spec, winner(spec, "longer", dims={"N": 190}, schedule={"tile": 128, "stages": 1, "threads": 64}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(spec, spec.case("short"), HOPPER) is None


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_without_entries_the_kernels_have_their_authors_schedules(spec: KernelSpec) -> None:
    path = winners_file(spec)
    assert path is not None and path.parent.name == "kernels"
    entries = {(w.kernel, w.arch) for w in read_winners(path)}
    for arch in ARCHES.values():
        if (spec.name, arch.name) not in entries:
            for case in spec.cases:
                assert spec.schedule_for(case, arch) == spec.own_schedule(case, arch)


def test_what_kernels_import_wants_neither_torch_nor_tilelang() -> None:
    code = (
        "import sys, tilecheck.spec, tilecheck.tuning.lookup; print({'torch', 'tilelang'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA H200", "nvidia-h200"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
        ("NVIDIA GeForce RTX 4090", "nvidia-geforce-rtx-4090"),
    ],
)
def test_models_are_named_as_folders_are(name: str, model: str) -> None:
    assert gpu_model(name) == model


def test_a_device_knows_the_model_of_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA H200")
    assert Cuda().arch == HOPPER


HELPED = SOURCE.replace("last = N //", "last = half(N) // 2 + N // 2 if False else N //").replace(
    "def program", "OFFSET = 3\n\n\n    def half(N):\n        return N // 2 + OFFSET\n\n\n    def program"
)


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("# three stages lose the tail", "# another comment", True),
        ("def program(", '"""Text."""\n\n\n    def program(', True),
        ('why="a tail"', 'why="another reason"', True),
        ("N // 2 + OFFSET", "N // 4 + OFFSET", False),
        ("OFFSET = 3", "OFFSET = 4", False),
        ("threads=threads) as b", "threads=2 * threads) as b", False),
        ("return Schedule(64, 2)", "return Schedule(32, 2)", True),
    ],
)
def test_the_source_is_that_of_the_program_and_what_it_uses(
    tmp_path: Path, old: str, new: str, same: bool
) -> None:
    before = source_hash(module_in(tmp_path, HELPED).program)
    assert old in HELPED
    after = source_hash(module_in(tmp_path, HELPED.replace(old, new), "copy_changed").program)
    assert before is not None and (before == after) is same


IMPORTING = {
    "a name": "from beside import half\n\n\ndef program(N):\n    return half(N)\n",
    "under another name": "from beside import half as h\n\n\ndef program(N):\n    return h(N)\n",
    "all names": "from beside import *\n\n\ndef program(N):\n    return half(N)\n",
    "the module": "import beside\n\n\ndef program(N):\n    return beside.half(N)\n",
    "the module as another": "import beside as b\n\n\ndef program(N):\n    return b.half(N)\n",
    "the module of a package": "from package import beside\n\n\ndef program(N):\n    return beside.half(N)\n",
    "within the program": "def program(N):\n    from beside import half\n\n    return half(N)\n",
    "the module within it": "def program(N):\n    import beside\n\n    return beside.half(N)\n",
    "if it is there": "try:\n    from beside import half\nexcept ImportError:\n    half = None\n\n\n"
    "def program(N):\n    return half(N)\n",
}


@pytest.mark.parametrize("how", IMPORTING)
def test_the_source_reaches_modules_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "package", ModuleType("package"))
    hashes = []
    for turn, body in enumerate(("return N // 2", "return N // 3", "return N // 2  # again")):
        (tmp_path / "beside.py").write_text(f"def half(N):\n    {body}\n")
        beside = module_in(tmp_path, (tmp_path / "beside.py").read_text(), "beside")
        monkeypatch.setattr(sys.modules["package"], "beside", beside, raising=False)
        hashes.append(source_hash(module_in(tmp_path, IMPORTING[how], f"importing_{turn}").program))
    assert hashes[0] is not None and hashes[0] == hashes[2] != hashes[1]


@pytest.mark.parametrize(
    "source",
    [
        "if True:\n    def half(N):\n        return N // 2\nelse:\n    half = None\n",
        "try:\n    half = int\nexcept ValueError:\n    half = 2\n",
        "half = 4\nhalf -= 2\n",
        "with open(__file__):\n    half = 2\n",
    ],
)
def test_the_source_reaches_what_is_defined_on_conditions_and_twice(tmp_path: Path, source: str) -> None:
    program = "\n\ndef program(N):\n    return half\n"
    before = source_hash(module_in(tmp_path, source + program, "defined_1").program)
    after = source_hash(module_in(tmp_path, source.replace("2", "3") + program, "defined_2").program)
    assert before is not None and before != after


def test_a_program_without_a_file_has_no_source() -> None:
    made: dict[str, Any] = {"__name__": "nowhere"}
    exec("def program(N):\n    return N", made)
    assert source_hash(made["program"]) is None
