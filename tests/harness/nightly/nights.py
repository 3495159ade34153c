"""Nights that were made up: no number in them was measured."""

import hashlib
import random
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

from tilecheck.nightly.history import History
from tilecheck.nightly.night import Checked, Failure, Night, Time, Upgraded
from tilecheck.nightly.plan import LIMITS

GPU = "Example GPU"

KERNELS = {"vector_add": 8e-6, "matmul": 2e-4, "softmax": 9e-5, "flash_attention": 5e-4}
"""With the time of their smallest row."""

BAND = 0.015


def rows(count: int = 12) -> dict[str, tuple[str, float]]:
    """So many rows: the kernel and the usual time of each."""
    found: dict[str, tuple[str, float]] = {}
    for i in range(count):
        kernel = list(KERNELS)[i % len(KERNELS)]
        size, dtype = i // len(KERNELS), ("bf16", "fp16", "fp32")[i % 3]
        name = f"{kernel.replace('_', '-')}-size{size}-{dtype}"
        found[name] = (kernel, KERNELS[kernel] * 1.4**size)
    return found


def nights(count: int, of_rows: int = 12) -> list[Night]:
    """Nights with all that there may be: the last row but one drifts, there are red nights, a kernel that was
    wrong, a new driver with a step, a night that was refused.
    """
    chance = random.Random(0)
    known = rows(of_rows)
    drifting = list(known)[-2]
    found = []
    for n in range(count):
        left = count - 1 - n
        wrong, refused = left in (5, 6), left == 15
        step = 1.012 if left < count // 3 else 1.0
        stages = _stages(wrong, refused)
        times: dict[str, Time] = {}
        for name, (kernel, usual) in known.items():
            drift = 1.002 ** max(0, 30 - left) if name == drifting else 1.0
            spike = 1.06 if name.startswith("softmax-size0") and left in (9, 40) else 1.0
            median = usual * (step if kernel == "matmul" else 1.0) * drift * spike * chance.gauss(1, 0.003)
            change = median / usual - 1
            verdict = "slower" if change > BAND else "faster" if change < -BAND else "same"
            times[name] = Time(
                median, "events", 1980.0, "torch", median / usual * 0.9, verdict, kernel, usual, BAND
            )
        found.append(
            Night(
                date=f"{date(2026, 1, 1) + timedelta(days=n)}T02:17:00+00:00",
                gpu=GPU,
                seed=chance.randrange(2**31),
                exit_code=13 if wrong else 10 if refused else 0,
                commit=hashlib.sha1(str(n // 4).encode()).hexdigest(),
                dirty=left == 5,
                arch="sm_90a",
                toolchain={"tilelang": "0.1.15", "driver": "580.95" if step > 1 else "575.57"},
                stages=stages,
                seconds={
                    name: 0.0 if state == "refused" else round(40.0 * i + chance.random() * 20, 1)
                    for i, (name, state) in enumerate(stages.items())
                },
                failures=(Failure("correctness", "tests/t.py::t[x]", "softmax", "x", "wrong"),)
                if wrong
                else (),
                times={} if refused else times,
                kernels={} if refused else _checked(chance, wrong),
                newest="TileLang 0.1.16, the newest release",
                upgrade=_upgraded(left),
            )
        )
    return found


def _stages(wrong: bool, refused: bool) -> dict[str, str]:
    states = dict.fromkeys(LIMITS, "passed")
    if wrong:
        states["correctness"] = "failed"
    if refused:
        states |= dict.fromkeys(
            ("doctor", "latency", "correctness", "schedules", "sanitizer", "newest"), "refused"
        )
        states["guard"] = "failed"
    return states


def _checked(chance: random.Random, wrong: bool) -> dict[str, Checked]:
    found = {}
    for kernel in KERNELS:
        used = 0.0 if kernel == "vector_add" else 0.6 + 0.3 * chance.random()
        found[kernel] = Checked(64, 0, 3, used, f"{kernel.replace('_', '-')}-tails-fp16")
    if wrong:
        found["softmax"] = Checked(62, 2, 3, float("inf"), "softmax-rising-fp32")
    return found


def _upgraded(left: int) -> Upgraded:
    parts = {"correctness": "passed", "latency": "passed", "codegen": "passed"}
    if left >= 20:
        return Upgraded("0.1.14", "0.1.15", "0.1.14 -> 0.1.15: nothing speaks against it", parts)
    bad = "0.1.15 -> 0.1.16: slows 1 of 2 rows and makes code worse"
    return Upgraded("0.1.15", "0.1.16", bad, parts | {"latency": "failed", "codegen": "failed"})


def history(folder: Path, kept: list[Night]) -> Path:
    """The folder of all nights, with these in it."""
    for night in kept:
        History(folder, night.gpu).append(night)
    return folder


def hostile(night: Night, text: str) -> Night:
    """A night with `text` in every field that is text; but for the commit, which has to be one."""
    time = Time(1e-4, text, 1980.0, text, 0.5, text, text, 1e-4, 0.02)
    return replace(
        night,
        date=text,
        toolchain={"tilelang": text, "driver": text, text: text},
        stages={text: text, **night.stages, "latency": text},
        seconds={text: 1.0},
        times={**night.times, text: time},
        kernels={**night.kernels, text: Checked(1, 1, 1, 2.0, text)},
        newest=text,
        upgrade=Upgraded(text, text, text, {text: text, "latency": text}),
    )
