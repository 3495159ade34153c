"""Reports that were made up: no number in them was measured."""

import math
from dataclasses import replace
from typing import Any

from tests.harness.facts import HOPPER
from tilecheck.report.model import (
    SCHEMA,
    SECTIONS,
    Case,
    Code,
    History,
    Kernel,
    Latency,
    Numerics,
    Report,
    Run,
    Search,
    Section,
    Stored,
    Test,
)

GPU = "Example GPU"
DTYPES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}
HOSTILE = (
    "<script>alert(1)</script>\"'&<img src=x onerror=alert(1)>`*_[a](javascript:b)|</pre></svg>"
    "${x}{{7*7}}$\\frac"
)
"""What nobody should call a test."""

VERDICTS = ("same", "same", "slower", "faster", "inconclusive")


def case_ids(kernel: str) -> list[str]:
    return [
        f"{kernel[:3]}-{size}-{short}"
        for size in ("one-tile", "tails", "model", "long-k")
        for short in DTYPES
    ]


def kernel(name: str) -> Kernel:
    cases = [
        Case(
            id,
            DTYPES[id.rpartition("-")[2]],
            f"M={64 * i} N=128",
            "a row",
            flops=4e9 * 4**i,
            bytes=2e8 * 2**i,
        )
        for i, id in enumerate(case_ids(name))
    ]
    return Kernel(name, f"What {name} computes, for any size.", tuple(cases))


def rows_of(name: str, run: int = 0) -> list[Test]:
    prefix = name.replace("_", "-")
    return [
        Test(
            f"tests/test_correctness.py::test_output[{prefix}-{id}]",
            "correctness",
            "passed",
            0.2,
            name,
            id,
            run=run,
        )
        for id in case_ids(name)
    ]


def numerics_of(name: str, run: int = 0) -> list[Numerics]:
    prefix = name.replace("_", "-")
    checked = [(id, "", "correctness") for id in case_ids(name)]
    checked += [(case_ids(name)[0], f"m{m}-n{n}", "schedules") for m in (64, 128) for n in (64, 128, 256)]
    return [
        Numerics(
            test=f"tests/test_{section}.py::test_output[{prefix}-{id}]",
            section=section,
            kernel=name,
            row=f"{prefix}-{id}{f'-{schedule}' if schedule else ''}",
            dtype=DTYPES[id.rpartition("-")[2]],
            device="simulator",
            arch="sm_90a",
            budget_used=(i * 37 % 100) / 100,
            terms_used=(i * 17 % 60) / 100,
            max_abs_error=1e-4 * i,
            relative_error=1e-6 * i,
            empirical=i % 5 == 0,
            case=id,
            schedule=schedule,
            run=run,
        )
        for i, (id, schedule, section) in enumerate(checked)
    ]


def code_of(name: str) -> list[Code]:
    prefix = name.replace("_", "-")
    rows = []
    for i, (id, arch) in enumerate((id, arch) for id in case_ids(name)[:3] for arch in ("sm_80", "sm_90a")):
        changed = i == 3
        rows.append(
            Code(
                row=f"{prefix}-{id}-{arch}",
                kernel=name,
                case=id,
                arch=arch,
                landmarks="kept",
                stored="changed" if changed else "same",
                words="spill stores 0 -> 8, registers 168 -> 255" if changed else "",
                severity="regression" if changed else "neutral",
                facts={**HOPPER.as_json(), "registers": 255 if changed else 168, "spill_stores": 8 * changed},
            )
        )
    return rows


def latency_of(name: str) -> list[Latency]:
    prefix = name.replace("_", "-")
    rows = []
    for i, case in enumerate(kernel(name).cases[:10]):
        peak = 9e14 if case.dtype != "float32" else 4.5e14
        assert case.flops is not None and case.bytes is not None
        median = max(case.flops / peak, case.bytes / 4.5e12) * (1.2 + 0.13 * i)
        change = (0.004, -0.002, 0.043, -0.031, 0.02)[i % 5]
        rows.append(
            Latency(
                row=f"{prefix}-{case.id}",
                kernel=name,
                case=case.id,
                gpu=GPU,
                median=median,
                q1=median * 0.99,
                q3=median * 1.02,
                samples=40,
                method="events",
                clock_mhz=1980.0,
                vendors={"torch": median / (0.8 + 0.07 * i)},
                vendor="torch",
                ratio=0.8 + 0.07 * i,
                tflops=case.flops / median / 1e12,
                gbs=case.bytes / median / 1e9,
                roofline=1 / (1.2 + 0.13 * i),
                peak_flops=peak,
                peak_bytes=4.5e12,
                verdict=VERDICTS[i % 5],
                old=median / (1 + change),
                change=change,
                band=0.015,
                smallest=0.02,
                words=f"{VERDICTS[i % 5]}: in words",
                schedule="Schedule(block_m=128)",
            )
        )
    return rows


def run_of(**given: Any) -> Run:
    sections = tuple(Section(name, 3.0 * i, None if i == 0 else 0) for i, name in enumerate(SECTIONS))
    return Run(
        **{
            "started": "2026-01-31T14:05:00+00:00",
            "seconds": 61.0,
            "ended": "complete",
            "exit": 0,
            "command": ("-m", "correctness"),
            "device": "simulator",
            "arch": "sm_90a",
            "environment": {"TileLang": "0.1.15", "commit": "0123456789ab"},
            "sections": sections,
            **given,
        }
    )


def whole_report() -> Report:
    """Three kernels with all that there may be; one of them wrong."""
    names = ("vector_add", "matmul", "softmax")
    wrong = rows_of("softmax")[4]
    command = f'pytest "{wrong.id}" --device=simulator --seed=0'
    wrong = replace(
        wrong,
        outcome="failed",
        message=f"softmax is wrong for {wrong.case} on simulator, sm_90a\n"
        "Y: 12 of 99 elements wrong, first at [0, 3]\n"
        f"  worst at [2, 7]: got 0.25, want 0.5, error 0.25 is 900 times the bound\nrepeat: {command}",
        repeat=command,
    )
    skipped = Test(
        "tests/test_latency.py::test_latency[every-case]",
        "latency",
        "skipped",
        0.0,
        message="needs a GPU: none",
    )
    tests = [test for name in names for test in rows_of(name)]
    tests = [wrong if test.id == wrong.id else test for test in tests]
    numerics = [each for name in names for each in numerics_of(name)]
    numerics = [
        replace(each, budget_used=math.inf, terms_used=math.inf) if each.test == wrong.id else each
        for each in numerics
    ]
    stored = [
        Stored(
            f"000{n}_tilelang-0.1.{n}.json",
            f"2026-0{n}-01",
            row.row,
            row.median * (1 + 0.01 * n * (i % 3 - 1)),
        )
        for i, row in enumerate(latency_of("matmul"))
        for n in (1, 2, 3)
    ]
    return Report(
        schema=SCHEMA,
        tilecheck="0.1.0",
        project="example",
        runs=(run_of(exit=1),),
        kernels=tuple(map(kernel, names)),
        tests=(*tests, skipped),
        numerics=tuple(numerics),
        code=tuple(each for name in names[1:] for each in code_of(name)),
        latency=tuple(latency_of("matmul")),
        searches=(
            Search("tests/test_autotune.py::test_search[matmul]", "matmul", "mat-model-fp16", "24 tried"),
        ),
        history=(History(GPU, tuple(stored)),),
    )


def hostile(report: Report) -> Report:
    """A report with `HOSTILE` in every field that is text."""
    kernel = report.kernels[1]
    cases = (*kernel.cases, Case(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1e9, 1e9))
    bad = Test(
        f"t.py::test[{HOSTILE}]", "correctness", "failed", 1.0, "matmul", HOSTILE, HOSTILE, HOSTILE, HOSTILE
    )
    run = run_of(
        ended=HOSTILE,
        command=(HOSTILE,),
        gpu=HOSTILE,
        notes=(HOSTILE,),
        environment={HOSTILE: HOSTILE, "commit": HOSTILE, "TileLang": HOSTILE},
    )
    latency = replace(
        report.latency[0],
        row=HOSTILE,
        case=HOSTILE,
        gpu=HOSTILE,
        vendor=HOSTILE,
        vendors={HOSTILE: 1.0},
        verdict=HOSTILE,
        words=HOSTILE,
        schedule=HOSTILE,
        toolchain=HOSTILE,
    )
    code = replace(report.code[0], row=HOSTILE, case=HOSTILE, arch=HOSTILE, stored="changed", words=HOSTILE)
    numerics = replace(
        report.numerics[12], row=HOSTILE, case=HOSTILE, dtype=HOSTILE, arch=HOSTILE, kernel="matmul"
    )
    stored = Stored(HOSTILE, HOSTILE, f"matmul-{HOSTILE}", 1.0, HOSTILE, HOSTILE)
    return replace(
        report,
        project=HOSTILE,
        tilecheck=HOSTILE,
        runs=(run, replace(run, seconds=1.0)),
        kernels=(Kernel(kernel.name, HOSTILE, cases), *report.kernels),
        tests=(*report.tests, bad, replace(bad, id=f"{bad.id}2", outcome="skipped")),
        latency=(*report.latency, latency),
        searches=(Search(HOSTILE, "matmul", HOSTILE, HOSTILE),),
        code=(*report.code, replace(code, kernel="matmul"), replace(code, kernel="matmul", error=HOSTILE)),
        numerics=(*report.numerics, numerics, replace(numerics, section="schedules", schedule=HOSTILE)),
        history=(replace(report.history[0], gpu=HOSTILE, rows=(*report.history[0].rows, stored)),),
    )
