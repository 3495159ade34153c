"""`tilecheck explain`: what it reads off programs, its arithmetic, and what it says without a compiler."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tilelang.language as T

import kernels
from kernels.flash_attention import Schedule
from tilecheck import environment
from tilecheck.arches import ARCHES, arch
from tilecheck.cli import explain, main
from tilecheck.codegen import CodegenError, NoToolchain, artifacts, find_toolchain
from tilecheck.explain import layout_of
from tilecheck.explain.layout import Layout
from tilecheck.latency.chips import CHIPS
from tilecheck.latency.monitor import GpuFacts
from tilecheck.latency.roofline import roof
from tilecheck.occupancy import occupancy, waves
from tilecheck.program import Program, build_program
from tilecheck.spec import Case, KernelSpec

ROOT = Path(__file__).parents[2]
SPECS = {spec.name: spec for spec in kernels.SPECS}


def program_of(kernel: str, id: str, on: str = "sm_90a", schedule: Any = None) -> Program:
    spec = SPECS[kernel]
    return build_program(spec, spec.case(id), arch(on), schedule)


def traced(function: Any, **dims: int) -> Layout:
    case = Case("one", dims, "float32", why="whatever it is")
    return layout_of(build_program(KernelSpec("it", function, lambda X: X, (case,)), case, arch("sm_90a")))


# What is read off a program


def test_a_product_is_counted_in_whole_tiles() -> None:
    found = layout_of(program_of("matmul", "all-over-fp16"))  # 65 x 65 x 65 in tiles of 64
    assert (found.grid, found.blocks, found.threads) == ((2, 2, 1), 4, 128)
    assert {tile.name: (tile.shape, tile.bytes) for tile in found.tiles} == {
        "A_shared": ((64, 64), 8192),
        "B_shared": ((64, 64), 8192),
        "C_local": ((64, 64), 16384),
    }
    assert [(loop.name, loop.least, loop.most) for loop in found.loops] == [("k", 2, 2)]
    assert found.read == {"A": 4 * 2 * 8192, "B": 4 * 2 * 8192}
    assert found.written == {"C": 4 * 8192}
    assert found.products == 2 * 128**3
    assert found.open == ()


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(128, 128, 2, 256),
        Schedule(128, 128, 2, 256, overlap=True),
        Schedule(128, 128, 2, 256, overlap=True, blocks=132),
    ],
    ids=["by-block", "overlapped", "by-turn"],
)
@pytest.mark.parametrize("id", ["dim-64-2k-causal-fp16", "more-queries-causal-fp16", "len-129-causal-fp16"])
def test_trips_that_depend_on_the_block_are_summed(id: str, schedule: Schedule) -> None:
    spec = replace(SPECS["flash_attention"], legal=None)  # which refuses turns with causal
    program = build_program(spec, spec.case(id), arch("sm_90a"), schedule)
    dims, tile = program.case.dims, program.schedule
    rows = -(-dims["q_len"] // tile.block_m)
    # A block's last query sees this many keys; each is asked for in whole tiles, and one tile at least.
    seen = [(i + 1) * tile.block_m + dims["k_len"] - dims["q_len"] for i in range(rows)]
    trips = [-(-min(max(keys, 1), dims["k_len"]) // tile.block_n) for keys in seen]
    found = layout_of(program)
    assert (found.loops[-1].least, found.loops[-1].most) == (min(trips), max(trips))
    of_tile = tile.block_n * dims["head_dim"] * 2
    assert found.read["K"] == sum(trips) * of_tile * dims["heads"] * dims["batch"]
    assert found.products == sum(trips) * dims["heads"] * dims["batch"] * (
        4 * tile.block_m * tile.block_n * dims["head_dim"]
    )


@pytest.mark.parametrize("id", ["2e20-fp32", "2e28-bf16"])
def test_a_kernel_that_streams_asks_for_the_least(id: str) -> None:
    program = program_of("vector_add", id)
    found, cost = layout_of(program), program.spec.cost_of(program.case)
    assert cost is not None
    assert sum(found.read.values()) + sum(found.written.values()) == cost.bytes


def test_element_loops_conditions_and_atomics() -> None:
    def program(n: int) -> Any:
        @T.prim_func
        def main(X: T.Tensor((n,), "float32"), S: T.Tensor((1,), "float32")):
            with T.Kernel(T.ceildiv(n, 128), threads=128) as b:
                for i in T.Parallel(128):
                    if b * 128 + i < n:
                        T.atomic_add(S[0], X[b * 128 + i] + X[b * 128 + i])

        return main

    found = traced(program, n=300)
    assert found.read == {"X": 3 * 128 * 4 * 2, "S": 3 * 128 * 4}
    assert found.written == {"S": 3 * 128 * 4}


def test_a_scale_loop_inside_a_loop() -> None:
    def program(n: int) -> Any:
        @T.prim_func
        def main(X: T.Tensor((n, n), "float32"), Y: T.Tensor((n, n), "float32")):
            with T.Kernel(n, threads=32) as b:
                tile = T.alloc_fragment((n,), "float32")
                for _i in T.serial(b + 1):
                    for _j in T.serial(3):
                        T.copy(X[b, 0], tile)
                T.copy(tile, Y[b, 0])

        return main

    found = traced(program, n=8)
    assert found.read == {"X": (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8) * 3 * 8 * 4}
    assert [(loop.least, loop.most) for loop in found.loops] == [(1, 8), (3, 3)]


def test_a_loop_whose_trips_depend_on_another_loop() -> None:
    def program(n: int) -> Any:
        @T.prim_func
        def main(X: T.Tensor((n, n), "float32"), Y: T.Tensor((n, n), "float32")):
            with T.Kernel(n, threads=32) as b:
                tile = T.alloc_fragment((n,), "float32")
                for i in T.serial(b + 1):
                    for _j in T.serial(i + b):
                        T.copy(X[b, 0], tile)
                    for _k in T.serial(2):
                        T.copy(tile, Y[b, 0])

        return main

    found = traced(program, n=8)
    assert found.read == {"X": sum(i + b for b in range(8) for i in range(b + 1)) * 8 * 4}
    assert found.written == {"Y": 36 * 2 * 8 * 4}
    assert [(loop.least, loop.most) for loop in found.loops] == [(1, 8), (0, 14), (2, 2)]


def test_sizes_that_the_program_takes_from_its_tensors() -> None:
    def program() -> Any:
        n = T.dynamic("n")

        @T.prim_func
        def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, 128), threads=128) as b:
                for i in T.Parallel(128):
                    Y[b * 128 + i] = X[b * 128 + i]

        return main

    found = traced(program, n=1000)
    assert (found.grid, found.read, found.open) == ((8, 1, 1), {"X": 4096}, ())


def test_several_kernels_of_one_program() -> None:
    def program(n: int) -> Any:
        @T.prim_func
        def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
            with T.Kernel(2, threads=64):
                for i in T.Parallel(n):
                    Y[i] = X[i]
            with T.Kernel(3, threads=32):
                for i in T.Parallel(n):
                    Y[i] = X[i]

        return main

    found = traced(program, n=64)
    assert (found.grid, found.threads, found.read) == ((3, 1, 1), 32, {"X": 5 * 256})
    assert found.open == ("all kernels together: grid and threads are those of the last one",)


def test_what_is_only_known_at_run_time_is_left_open() -> None:
    def program(n: int) -> Any:
        @T.prim_func
        def main(X: T.Tensor((n,), "float32"), L: T.Tensor((1,), "int32"), Y: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_fragment((n,), "float32")
                T.clear(tile)
                for _ in T.serial(L[0]):
                    T.copy(X, tile)
                T.copy(tile, Y)

        return main

    found = traced(program, n=64)
    assert found.written == {"Y": 256}
    assert "X" not in found.read
    assert found.open == ("traffic of X, in a loop of unknown trips",)
    assert found.loops[0].most is None


# Occupancy


@pytest.mark.parametrize(
    ("on", "threads", "registers", "shared", "blocks", "limited_by"),
    [
        ("sm_90a", 384, 168, 197632, 1, ("registers", "shared memory")),
        ("sm_80", 256, 64, 0, 4, ("registers",)),
        ("sm_80", 256, 32, 0, 8, ("registers", "threads")),
        ("sm_80", 32, 16, 0, 32, ("blocks",)),
        ("sm_89", 128, 32, 99 * 1024, 1, ("shared memory",)),
        ("sm_80", 128, 33, 0, 12, ("registers",)),  # 33 registers are given as 40
        ("sm_90a", 48, 16, 1024, 32, ("threads", "blocks")),  # half a warp takes a whole one
        ("sm_120a", 512, 40, 0, 3, ("registers", "threads")),
        ("sm_89", 128, 32, 100 * 1024, 0, ("shared memory",)),
    ],
)
def test_what_limits_occupancy(
    on: str, threads: int, registers: int, shared: int, blocks: int, limited_by: tuple[str, ...]
) -> None:
    found = occupancy(arch(on), threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)


def test_what_is_not_known_limits_nothing() -> None:
    found = occupancy(arch("sm_90a"), 128, None, None)
    assert (found.blocks, found.limited_by, found.share) == (16, ("threads",), 1.0)


@pytest.mark.parametrize(
    ("blocks", "resident", "count", "full"),
    [(264, 1, 2, 1.0), (265, 2, 2, 1 / 264), (1, 4, 1, 1 / 528), (0, 4, 0, 0)],
)
def test_waves(blocks: int, resident: int, count: int, full: float) -> None:
    assert waves(blocks, 132, resident) == (count, pytest.approx(full))


@pytest.mark.parametrize(("name", "tflops"), [("sm_80", 312), ("sm_89", 362), ("sm_100a", 2250)])
def test_data_sheets_have_the_peaks_of_their_papers(name: str, tflops: float) -> None:
    assert roof(CHIPS[name], ARCHES[name], "bfloat16").flops == pytest.approx(tflops * 1e12, rel=0.02)
    assert list(CHIPS) == list(ARCHES)


# The command


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """TileLang lowers, and there is no nvcc."""

    def missing() -> None:
        raise NoToolchain("no nvcc anywhere; install one")

    monkeypatch.setattr(artifacts, "find_toolchain", missing)


def explained(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(environment, "machine", environment.Machine)  # no GPU, whatever there is
    assert main(["explain", *arguments]) == 0
    text = capfd.readouterr().out
    assert all(len(line) <= 110 for line in text.splitlines())
    return " ".join(text.split())


@pytest.mark.usefixtures("no_compiler")
def test_without_nvcc_it_says_what_it_lacks(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = explained(capfd, monkeypatch, "matmul", "--case", "llama8b-up-bf16")
    assert "and 128 more that only copy: 384 launched" in text
    assert "grid 128 x 1 x 1 = 128 blocks" in text
    assert "1 block on a multiprocessor at most, limited by shared memory" in text
    assert "1 wave of up to 132 blocks, the last one 97% full" in text
    assert "reads A 1.879 GB (56 x), B 3.758 GB (32 x)" in text
    assert "at least 268.4 MB; the blocks ask for 5.755 GB, 21.4 times that" in text
    assert "1792 operations a byte, over the ridge of 223: bound by operations" in text
    assert "compiler registers, and what they allow of occupancy: no nvcc anywhere; install one" in text
    assert "none spilled" not in text


@pytest.mark.usefixtures("no_compiler")
def test_a_case_of_many_sizes_keeps_to_the_width(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = explained(capfd, monkeypatch, "flash-attention", "--case", "dim-128-16k-fp16")
    assert (
        text.startswith("flash_attention, dim-128-16k-fp16 (batch=1 ") and "float16), on sm_90a why" in text
    )


@pytest.mark.usefixtures("no_compiler")
def test_what_is_next_to_nothing_is_told_as_such(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = explained(capfd, monkeypatch, "softmax", "--case", "one-element-fp16")
    assert re.search(r"1 wave of up to \d+ blocks, the last one under 1% full", text)
    assert re.search(r"roofline [\d.e-]+ ns at least", text)
    assert " 0 ns" not in text and " us " not in text


@pytest.mark.usefixtures("no_compiler")
@pytest.mark.parametrize(
    ("kernel", "id", "words"),
    [
        ("matmul", "all-over-fp16", r"products \S+ \wFLOP in whole tiles, [1-9][\d.]* times the least"),
        # Its GELU is part of the least: a ratio below 1 would say that the products are too few.
        ("matmul-bias-gelu", "square-4096-tanh-bf16", r"products \S+ GFLOP in whole tiles, beside others"),
    ],
)
def test_products_are_never_told_as_fewer_than_the_least(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kernel: str, id: str, words: str
) -> None:
    assert re.search(words, explained(capfd, monkeypatch, kernel, "--case", id))


@pytest.mark.codegen
def test_a_kernel_without_tensor_cores_is_not_held_to_their_rate(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    text = explained(capfd, monkeypatch, "vector-add", "--case", "2e24-bf16")
    assert "no instruction of the tensor cores" in text
    assert re.search(r"0\.167 operations a byte, none by tensor cores, whose ridge is \d+", text)
    assert re.search(r"roofline +[\d.]+ us at least for the bytes at 4\.8 TB/s", text)
    assert "bound by" not in text and "FLOP/s" not in text


@pytest.mark.usefixtures("no_compiler")
def test_a_program_that_does_not_lower_is_explained_as_far_as_it_goes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(_: Program) -> None:
        raise CodegenError("TileLang does not lower it")

    monkeypatch.setattr("tilecheck.codegen.lower", refuses)
    text = explained(capfd, monkeypatch, "softmax", "--case", "quarter-gib-4096-fp16", "--arch", "sm_80")
    assert "at most, limited by" in text
    assert "registers, shared memory, threads that only copy, and what they allow of occupancy: " in text
    assert "under the ridge" in text
    assert "bound by device memory" in text
    assert "A100" in text


@pytest.mark.parametrize(
    ("on", "name", "multiprocessors"),
    [((9, 0), "NVIDIA GH200", 120), ((8, 0), "NVIDIA H200", 132), (None, "NVIDIA H200", 132)],
)
def test_the_gpu_is_that_of_the_machine_if_it_is_of_the_architecture(
    on: tuple[int, int] | None, name: str, multiprocessors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here:
        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def facts(self) -> GpuFacts:
            return GpuFacts("NVIDIA GH200", 120, 1.98e9, 4e12, 60 << 20, "580")

    machine = environment.Machine(torch="2", gpu="NVIDIA GH200" if on else None, capability=on)
    monkeypatch.setattr(environment, "machine", lambda: machine)
    monkeypatch.setattr("tilecheck.latency.monitor.Monitor", Here)
    gpu, _ = explain.gpu_for(arch("sm_90a"))
    assert (gpu.name, gpu.multiprocessors) == (name, multiprocessors)


@pytest.mark.codegen
def test_with_the_compiler(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        artifacts.find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    text = explained(capfd, monkeypatch, "vector-add", "--case", "power-fp16", "--schedule", "threads=64")
    assert "of a thread at the launch" in text and "none spilled" in text
    assert "no instruction of the tensor cores" in text
    assert "registers " in text.partition("limited by")[2].partition(";")[0]
    assert "the blocks ask for 393.2 kB, the least" in text
    assert "not known" not in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["matmull"], "no kernel 'matmull'; did you mean matmul"),
        (["matmul", "--case", "one-tile"], "no case 'one-tile'; did you mean one-tile-"),
        (["matmul", "--arch", "sm_90"], "no architecture 'sm_90'; did you mean sm_90a"),
        (["matmul", "--schedule", "threads=33"], "threads must be a positive multiple of 32"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], line: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["explain", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1 and line in err
