import pickle
from dataclasses import replace

import pytest

from tests.harness.facts import AMPERE
from tilecheck.arches import ARCHES, arch
from tilecheck.codegen import Facts
from tilecheck.codegen.facts import NUMBERS
from tilecheck.codegen.sass import family
from tilecheck.landmarks import Landmark, absent, common, global_accesses, present, tensor_cores


def test_a_family_counts_in_all_its_widths() -> None:
    assert AMPERE.value("LDG") == 6
    assert AMPERE.value("LDG.128") == 4
    assert AMPERE.value("LDGSTS") == 8
    assert AMPERE.value("HGMMA") == 0
    assert AMPERE.value("dynamic_shared") == 65536


def test_registers_of_a_block_are_given_to_warps_in_units() -> None:
    # CUDA Occupancy Calculator: units of 256 registers a warp; 33 * 32 = 1056 become 1280.
    assert replace(AMPERE, threads=65, registers=33).registers_of_block == 3 * 1280


def test_facts_survive_json_and_pickle() -> None:
    assert Facts(**AMPERE.as_json()) == AMPERE
    assert pickle.loads(pickle.dumps(AMPERE)) == AMPERE


@pytest.mark.parametrize(
    ("landmark", "breach"),
    [
        (present("tensor-cores", "HGMMA|HMMA", "x"), None),
        (present("tensor-cores", "HGMMA", "slow"), "tensor-cores: HGMMA is 0, at least 1 promised: slow"),
        (absent("narrow", "LDG.8|LDG.32", "slow"), "narrow: LDG.8|LDG.32 is 2, at most 0 promised: slow"),
        (Landmark("few", "registers", least=100, most=168, why="x"), None),
        (Landmark("few", "registers", most=128, why="x"), "few: registers is 168, at most 128 promised: x"),
    ],
)
def test_breach(landmark: Landmark, breach: str | None) -> None:
    assert landmark.breach(AMPERE) == breach


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"id": "Tensor cores", "fact": "HMMA", "least": 1, "why": "x"}, "not lower-kebab"),
        ({"id": "a", "fact": "HMMA", "why": "x"}, "neither"),
        ({"id": "a", "fact": "HMMA", "least": 1, "why": " "}, "`why` is empty"),
    ],
)
def test_malformed_landmark(arguments: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Landmark(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ({"spill_loads": 4}, "no-spills"),
        ({"instructions": {"STL": 1}}, "no-local-memory"),
        ({"static_shared": 200_000}, "shared-memory"),
        ({"threads": 1024, "registers": 72}, "registers"),
    ],
)
@pytest.mark.parametrize("name", ARCHES)
def test_common_landmarks(name: str, change: dict[str, object], broken: str) -> None:
    assert not any(landmark.breach(AMPERE) for landmark in common(arch(name)))
    facts = replace(AMPERE, **change)  # type: ignore[arg-type]
    assert [landmark.id for landmark in common(arch(name)) if landmark.breach(facts)] == [broken]


@pytest.mark.parametrize(
    ("name", "rows", "fact"),
    [
        ("sm_80", 128, "HMMA"),
        ("sm_90a", 64, "HGMMA"),
        ("sm_90a", 48, "HMMA"),
        ("sm_100a", 128, "UTCMMA"),
        ("sm_100a", 16, "HMMA"),
        ("sm_120a", 128, "HMMA"),
    ],
)
def test_each_architecture_has_its_tensor_cores(name: str, rows: int, fact: str) -> None:
    assert tensor_cores(arch(name), rows).fact == fact


@pytest.mark.parametrize(
    ("loads", "stores", "instructions", "broken"),
    [
        (16, 16, {"LDG.128": 4, "STG.256": 2}, []),
        (
            16,
            16,
            {"LDG.128": 4, "LDG.32": 1, "STG.64": 2},
            ["no-narrow-loads", "wide-stores", "no-narrow-stores"],
        ),
        (2, 4, {"LDG.16": 4, "STG.32": 4}, []),
        (
            2,
            4,
            {"LDG.8": 4, "STG.16": 4},
            ["wide-loads", "no-narrow-loads", "wide-stores", "no-narrow-stores"],
        ),
        (1, 1, {"LDG.8": 4, "STG.8": 4}, []),
        (0, 16, {"STG.128": 4}, []),
        (0, 0, {"LDG.128": 4, "STG.16": 4}, ["no-global-loads", "no-global-stores"]),
    ],
)
def test_width_of_global_accesses(
    loads: int, stores: int, instructions: dict[str, int], broken: list[str]
) -> None:
    facts = replace(AMPERE, instructions=instructions)
    assert [mark.id for mark in global_accesses(loads, stores) if mark.breach(facts)] == broken


def test_landmarks_of_the_kernels_name_what_is_counted() -> None:
    # A family that nothing counts is absent from any code, and its absence a promise that always holds.
    from kernels import SPECS

    for spec in SPECS:
        for case in spec.cases_of_code:
            for target in ARCHES.values():
                for landmark in spec.landmarks_of(case, target):
                    for name in landmark.fact.split("|"):
                        assert name in NUMBERS or counted(name), (spec.name, landmark)


def counted(name: str) -> bool:
    opcode, _, bits = name.partition(".")
    modifier = {"8": ".U8", "16": ".U16", "32": "", "": ""}.get(bits, f".{bits}")
    found = family(f"{opcode}{modifier} R0, R2")
    return found == name or str(found).startswith(f"{name}.")
