"""The suite rejects wrong kernels, and only those.

The wrong ones are edits of ours, kept as data in `mutants/`; each is tried up to its first rejection. The
full matrix, of every mutant and case, is `python -m tests.harness.mutants --all`.
"""

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.harness.mutants import engine
from tests.harness.mutants.catalogue import EQUIVALENTS, KERNELS, MUTANTS
from tests.harness.mutants.engine import Edit, Mutant, Row, edited, source_of
from tests.harness.mutants.matrix import one_process_after_another, tried_alone
from tilecheck.arches import arch
from tilecheck.device import Simulator
from tilecheck.plugin.limits import too_large

SEEN = [mutant for mutant in MUTANTS if not mutant.unseen]
UNSEEN = [mutant for mutant in MUTANTS if mutant.unseen]
SMALL = 1.5e7
"""Operations up to which a case takes a moment, however a right kernel is written."""


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(arch("sm_90a"))


def by_name(edits: list) -> dict:
    return {"argvalues": edits, "ids": [edit.name for edit in edits]}


def test_families_have_many_mutants_and_names_are_unique():
    names = Counter(edit.name for edit in (*MUTANTS, *EQUIVALENTS))
    assert max(names.values()) == 1
    assert min(Counter(mutant.kernel for mutant in MUTANTS).values()) >= 20


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_edit_still_applies(kernel: str):
    source = source_of(kernel)
    stale = []
    for edit in (*MUTANTS, *EQUIVALENTS):
        if edit.kernel == kernel:
            try:
                assert edited(edit, source) != source or edit.options
            except ValueError as error:
                stale.append(str(error))
    assert not stale, "\n".join(stale)


@pytest.mark.parametrize("mutant", **by_name(SEEN))
def test_wrong_kernel_is_rejected(mutant: Mutant, simulator: Simulator):
    rejection, before = engine.first_rejection(mutant, simulator)
    assert rejection is not None, f"survives: {mutant.why}"
    unusable = [f"{result.row}: {result.unusable}" for result in before if result.unusable]
    assert not unusable, "\n".join(unusable)


@pytest.mark.parametrize("mutant", **by_name(UNSEEN))
def test_what_the_simulator_does_not_model_it_does_not_see(mutant: Mutant, simulator: Simulator):
    """Else the mutant belongs to those that it has to reject."""
    with engine.spec_of(mutant) as spec:
        rows = [Row(id, spec.case(id)) for id in mutant.first if too_large(spec, spec.case(id)) is None]
        result = engine.try_row(spec, rows[0], simulator)
    assert not result.unusable, result.unusable
    assert not result.caught_by, result.message


@pytest.mark.gpu
@pytest.mark.usefixtures("tilecheck_device")
@pytest.mark.parametrize("mutant", **by_name(UNSEEN))
def test_wrong_kernel_is_rejected_on_a_gpu(mutant: Mutant):
    results = tried_alone(mutant.name, "cuda")
    unusable = [f"{result.row}: {result.unusable}" for result in results if result.unusable]
    assert not unusable, "\n".join(unusable)
    assert results[-1].caught_by, f"survives {len(results)} launches: {mutant.why}"


def test_a_mutant_is_tried_in_a_process_of_its_own(simulator: Simulator):
    mutant = next(mutant for mutant in SEEN if mutant.kernel == "vector_add")
    rejection, before = engine.first_rejection(mutant, simulator)
    here = [(result.row, result.caught_by) for result in (*before, rejection)]
    assert [(result.row, result.caught_by) for result in tried_alone(mutant.name, "simulator")] == here


@pytest.mark.parametrize(("lost", "processes"), [("True", 3), ("False", 1)])
def test_after_a_mutant_that_costs_the_process_its_gpu_the_next_has_a_new_one(lost: str, processes: int):
    pids = one_process_after_another(eval, ["__import__('os').getpid()"] * 3, partial(eval, lost))
    assert len(set(pids)) == processes


@pytest.mark.parametrize("edit", **by_name(list(EQUIVALENTS)))
def test_right_kernel_written_differently_passes(edit: Edit, simulator: Simulator):
    with engine.spec_of(edit) as spec:
        results = [engine.try_row(spec, row, simulator) for row in engine.default_rows(spec, SMALL)]
    assert len(results) > 40
    assert not [f"{r.row}: {r.message or r.unusable}" for r in results if r.caught_by or r.unusable]


SOURCE = """
def program(n):
    for i in range(n):
        load(i)
        store(i)
        load(i)


def reference(x):
    return x
"""


def test_edit_indents_new_lines_as_the_old_ones():
    edit = Edit("an-edit", "kernel", "why", {"load(i)\nstore(i)": "if i:\n    store(i)\nload(i)"})
    assert "        if i:\n            store(i)\n        load(i)\n        load(i)\n" in edited(edit, SOURCE)


def test_edits_are_made_at_once():
    edit = Edit("an-edit", "kernel", "why", {"store(i)": "range(n)", "range(n)": "store(i)"})
    assert "for i in store(i):\n        load(i)\n        range(n)\n" in edited(edit, SOURCE)


@pytest.mark.parametrize("old", ["load(i)", "fetch(i)", "return x", "load(i)\n    store(i)"])
def test_edit_of_text_that_does_not_occur_once_is_refused(old: str):
    with pytest.raises(ValueError, match=r"kernel/an-edit: [02] times in program, not once"):
        edited(Edit("an-edit", "kernel", "why", {old: ""}), SOURCE)


def test_matrix_is_printed():
    checkout = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, "-m", "tests.harness.mutants", "--kernel", "vector_add", "--jobs", "1"],
        cwd=checkout,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    lines = run.stdout.splitlines()
    assert any(line.split()[:3] == ["vector_add/difference", "1/1", "value"] for line in lines)
    assert any(line.startswith("vector_add/grid-one-short") and "unwritten output" in line for line in lines)
    assert lines[-1].split() == [
        "all",
        str(sum(m.kernel == "vector_add" for m in SEEN)),
        lines[-1].split()[2],
    ]
