"""Matrix product with bias and GELU in its epilogue: C = gelu(A @ B + bias), of any size.

    x[m, n] = sum over k of A[m, k] * B[k, n] + bias[n]
    C[m, n] = x * P(x),  P the normal distribution function: (1 + erf(x / sqrt 2)) / 2, or with
              approximate = "tanh"                           (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2

Contract. A is (M, K), B is (K, N), bias is (N,), C is (M, N). All are contiguous and of one type: fp16,
bf16, or fp32, which tensor cores read as tf32. Sum, bias and GELU are in fp32, and rounded once, to that
type; in the forms for Hopper, GELU is right to 2^-12 of x. Numbers below fp32's smallest normal one may
become 0.

Tiling. That of `kernels.matmul`, whose schedules, rules and forms these are. Bias and GELU work on the sum
where it lies, in registers, before the one store: no intermediate goes through memory.
"""

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

import torch
from torch.nn.functional import gelu

from kernels.matmul import (
    ALL,
    BF16,
    FP16,
    FP32,
    HALF,
    TUNING,
    Schedule,
    TileWalk,
    adding_shares,
    default_schedule,
    eleven_bits,
    hands_registers_over,
    launch_early,
    legal,
    one_ahead,
    pair_bytes,
    past_range,
    product_landmarks,
    product_terms,
    row_unit,
    shared_memory,
    stores_in_bulk,
    tf32_allowed,
    tiling,
    warp_policy,
    warp_roles,
)
from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as dtype_named
from tilecheck.landmarks import Landmark, global_accesses
from tilecheck.spec import Case, Cost, KernelSpec, Reference, Term

TAIL = (-0.00021736, -2.29114714, -1.915911796, -0.2511604408)
"""2 P(-2a) is 2 to the power of this polynomial of a >= 0, but for 2^-12.69, with the error of ex2.approx:
fitted to its logarithm, errors weighted by P.
"""


def gelu_of_twice(half, approximate, fast=False):
    """GELU of x = 2 * half, a float32 in a program: half of a sum and its bias is one instruction.
    fast: in a third of the instructions, off by 2^-12 of x at most.
    """
    import tilelang.language as T

    if approximate == "tanh":
        slope = 2 * math.sqrt(2 / math.pi)
        u = half * (slope + slope * 4 * 0.044715 * (half * half))
        return half + half * (T.call_pure_extern("float32", "__tanhf", u) if fast else T.tanh(u))
    if not fast:
        return half + half * T.erf(math.sqrt(2) * half)
    exponent = reduce(lambda higher, coefficient: higher * T.abs(half) + coefficient, reversed(TAIL))
    # half * 2P, with 2P = 1 +- (1 - tail): infinities give inf and NaN, as in the exact form.
    return half + T.abs(half) * (1.0 - T.exp2(exponent))


def takes_fast_gelu(s: Schedule) -> bool:
    """Whether a program asks for it: in the forms for Hopper, which multiply numbers of 11 bits at most."""
    return s.blocks > 0 or s.staged or s.splits > 1


def program(M, N, K, approximate, dtype, block_m, block_n, block_k, stages, threads, schedule, case, arch):
    s = schedule
    if s.blocks:
        walk = TileWalk(M, N, block_m, block_n, s.swizzle, s.blocks)
        form = persistent_tf32 if dtype == "float32" else persistent
        return form(M, N, K, approximate, dtype, block_m, block_n, block_k, stages, threads, walk)
    policy, fast = warp_policy(s, case, arch), takes_fast_gelu(s)
    if s.splits > 1:
        sizes = (block_m, block_n, block_k, stages, threads)
        return split(M, N, K, approximate, dtype, *sizes, policy, fast, s.splits)
    import tilelang.language as T

    # Beside few sums there are registers for the bias: nobody waits for it then (of 10 us, 0.3 on H200).
    early_bias = block_m * block_n // threads <= 32

    @T.macro
    def load_bias(bias, bx, half_bias):
        # Each thread fetches the bias of the columns that it holds.
        T.copy(bias[bx * block_n], half_bias)
        for j in T.Parallel(block_n):
            half_bias[j] *= 0.5

    @T.prim_func
    def matmul_bias_gelu(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_m, block_k), dtype)
            B_shared = T.alloc_shared((block_k, block_n), dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            half_bias = T.alloc_fragment((block_n,), "float32")
            T.use_swizzle(s.swizzle, enable=s.swizzle > 0)
            if not hands_registers_over(s, arch):
                T.no_set_max_nreg()
            if arch.capability >= (9, 0):
                launch_early()
            T.clear(C_local)
            if early_bias:
                load_bias(bias, bx, half_bias)
            # The product, as in `kernels.matmul`.
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                T.copy(A[by * block_m, k * block_k], A_shared)
                T.copy(B[k * block_k, bx * block_n], B_shared)
                T.gemm(A_shared, B_shared, C_local, policy=policy)
            if not early_bias:
                load_bias(bias, bx, half_bias)
            for i, j in T.Parallel(block_m, block_n):
                C_local[i, j] = 0.5 * C_local[i, j] + half_bias[j]
                C_local[i, j] = gelu_of_twice(C_local[i, j], approximate, fast)
            # Round once and store.
            if s.staged:
                C_shared = T.alloc_shared((block_m, block_n), dtype)
                T.copy(C_local, C_shared)
                T.copy(C_shared, C[by * block_m, bx * block_n])
            else:
                T.copy(C_local, C[by * block_m, bx * block_n])

    return matmul_bias_gelu


def split(M, N, K, approximate, dtype, block_m, block_n, block_k, stages, threads, policy, fast, splits):
    """`program` by clusters that share K out, as in `kernels.matmul`. Each block finishes some rows of the
    tile, and adds the bias to these.
    """
    import tilelang.language as T

    steps, rows = -(-K // (block_k * splits)), block_m // splits
    add_up = adding_shares(block_m, block_n, splits)

    @T.prim_func
    def matmul_bias_gelu(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        grid = (splits, T.ceildiv(N, block_n), T.ceildiv(M, block_m))
        with T.Kernel(*grid, threads=threads, cluster_dims=(splits, 1, 1)) as (share, bx, by):
            A_shared = T.alloc_shared((block_m, block_k), dtype)
            B_shared = T.alloc_shared((block_k, block_n), dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            total = T.alloc_fragment((rows * block_n,), "float32")
            T.no_set_max_nreg()
            launch_early()
            T.clear(C_local)
            for k in T.Pipelined(steps, num_stages=stages):
                T.copy(A[by * block_m, (share * steps + k) * block_k], A_shared)
                T.copy(B[(share * steps + k) * block_k, bx * block_n], B_shared)
                T.gemm(A_shared, B_shared, C_local, policy=policy)
            add_up(C_local, share, total)
            m = by * block_m + share * rows
            for i in T.Parallel(rows * block_n):
                total[i] = 0.5 * total[i] + 0.5 * T.cast(bias[bx * block_n + i % block_n], "float32")
            for i in T.Parallel(rows * block_n):
                total[i] = gelu_of_twice(total[i], approximate, fast)
            for i in T.Parallel(rows * block_n):
                C[m + i // block_n, bx * block_n + i % block_n] = total[i]
            T.cluster_wait()

    return matmul_bias_gelu


def persistent(M, N, K, approximate, dtype, block_m, block_n, block_k, stages, threads, walk):
    """`program` by blocks that stay, as in `kernels.matmul`. While a tile goes through GELU, tensor cores
    wait: for 2 % of the time. One part of the tile is stored while the next goes through: halves, or, where
    no other tile comes to hide the last store behind, quarters, which are 1 % faster there.

    Measured on an H200, 4096 x 4096 x 4096 in bf16, tanh form: 173 us, `program` 213 us, cuBLASLt 178 us.
    """
    import tilelang.language as T

    whole_rows = T.GemmWarpPolicy.FullRow
    parts = 4 if walk.turns(0) == 1 and block_n % 256 == 0 else 2  # of at least 128 bytes, a swizzle's width
    width, tile = block_n // parts, ("load bias", "steps", "parts")

    @T.prim_func
    def matmul_bias_gelu(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(walk.blocks, threads=threads) as block:
            A_shared = T.alloc_shared((block_m, block_k), dtype)
            B_shared = T.alloc_shared((block_k, block_n), dtype)
            C_shared = T.alloc_shared((block_m, width), dtype)
            C_local = T.alloc_fragment((block_m, block_n), "float32")
            bias_local = T.alloc_fragment((block_n,), dtype)
            operands, results = (A_shared, B_shared), (C_shared,)
            roles = warp_roles(
                threads, stages, operands, results, tile=tile, part=("gelu",), ahead=parts // 2
            )
            T.annotate_ws_schedule(roles)
            with T.ws_op("launch"):
                launch_early()
            for turn in T.serial(walk.turns(block), annotations={T.WSID: "tiles"}):
                m, n = walk.corner(block, turn)
                with T.ws_op("load bias"):
                    T.copy(bias[n], bias_local)
                for k in T.serial(T.ceildiv(K, block_k), annotations={T.WSID: "steps"}):
                    with T.ws_op("load A"):
                        T.copy(A[m, k * block_k], A_shared)
                    with T.ws_op("load B"):
                        T.copy(B[k * block_k, n], B_shared)
                    with T.ws_op("multiply"):
                        T.gemm(A_shared, B_shared, C_local, policy=whole_rows, clear_accum=k == 0)
                for part in T.unroll(parts, annotations={T.WSID: "parts"}):
                    # ptxas 13 moves GELU of all parts ahead of the first, unless it is behind a condition; of
                    # a warp's lanes one always differs from `part`.
                    with T.ws_op("gelu"):
                        if T.any_sync(T.get_thread_binding() % 32 != part) != 0:
                            for i, j in T.Parallel(block_m, width):
                                at = part * width + j
                                half_bias = 0.5 * T.cast(bias_local[at], "float32")
                                C_local[i, at] = 0.5 * C_local[i, at] + half_bias
                                C_local[i, at] = gelu_of_twice(C_local[i, at], approximate, fast=True)
                    with T.ws_op("round"):
                        T.copy(C_local[0, part * width], C_shared)
                    with T.ws_op("store"):
                        T.copy(C_shared, C[m, n + part * width])

    return matmul_bias_gelu


def persistent_tf32(M, N, K, approximate, dtype, block_m, block_n, block_k, stages, threads, walk):
    """`persistent` for fp32, as the transpose of C: see `kernels.matmul`.

    Measured on an H200, 4096 x 4096 x 4096, tanh form: 345 us, `program` 670 us, cuBLASLt 449 us.
    """
    import tilelang.language as T
    from tilelang.layout import make_full_bank_swizzled_layout

    whole_rows = T.GemmWarpPolicy.FullRow
    step, tile = ("turn B", "multiply", "lead"), ("load bias", "follow", "steps", "gelu", "store")
    follow, lead = one_ahead(threads)

    @T.prim_func
    def matmul_bias_gelu(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        bias: T.Tensor((N,), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(walk.blocks, threads=threads) as block:
            A_tf32, B_tf32 = T.view(A, dtype=T.tfloat32), T.view(B, dtype=T.tfloat32)
            A_shared = T.alloc_shared((block_m, block_k), T.tfloat32)
            B_shared = T.alloc_shared((block_k, block_n), T.tfloat32)
            B_local = T.alloc_fragment((block_n, block_k), T.tfloat32)
            C_local = T.alloc_fragment((block_n, block_m), "float32")
            bias_local = T.alloc_fragment((block_n,), dtype)
            T.annotate_layout({B_shared: make_full_bank_swizzled_layout(B_shared)})
            T.annotate_ws_schedule(warp_roles(threads, stages, (A_shared, B_shared), (), step, tile))
            with T.ws_op("launch"):
                launch_early()
            for turn in T.serial(walk.turns(block), annotations={T.WSID: "tiles"}):
                m, n = walk.corner(block, turn)
                with T.ws_op("load bias"):
                    T.copy(bias[n], bias_local)
                with T.ws_op("follow"):
                    follow(turn)
                for k in T.serial(T.ceildiv(K, block_k), annotations={T.WSID: "steps"}):
                    with T.ws_op("load A"):
                        T.copy(A_tf32[m, k * block_k], A_shared)
                    with T.ws_op("load B"):
                        T.copy(B_tf32[k * block_k, n], B_shared)
                    with T.ws_op("turn B"):
                        for i, j in T.Parallel(block_n, block_k):
                            B_local[i, j] = B_shared[j, i]
                    with T.ws_op("multiply"):
                        T.gemm(B_local, A_shared, C_local, False, True, whole_rows, clear_accum=k == 0)
                    with T.ws_op("lead"):
                        lead(turn, k)
                with T.ws_op("gelu"):
                    for i, j in T.Parallel(block_n, block_m):
                        C_local[i, j] = 0.5 * C_local[i, j] + 0.5 * bias_local[i]
                        C_local[i, j] = gelu_of_twice(C_local[i, j], approximate, fast=True)
                with T.ws_op("store"):
                    for i, j in T.Parallel(block_m, block_n):
                        C[m + i, n + j] = C_local[j, i]

    return matmul_bias_gelu


def reference(
    A: torch.Tensor,
    B: torch.Tensor,
    bias: torch.Tensor,
    approximate: str,
    dtype: str,
    schedule: Schedule,
    pass_configs: Mapping[str, Any],
) -> Reference:
    x = A @ B + bias
    product = (*product_terms(A, B, dtype), Term("adding the bias", 2.0**-24, x.abs()))
    # GELU passes an error of x on by its slope there, which is at most 1.13 and zero in the dip near -0.75.
    # That of the tanh form is within 0.001 of it; over an error e it changes by 0.8 * e at most, on average
    # by half of that.
    error = sum(term.coefficient * term.magnitude for term in product)
    slope = torch.special.ndtr(x) + x * torch.exp(-x.square() / 2) / math.sqrt(2 * math.pi)
    slope = (slope.abs() + 0.001 + 0.4 * error).clamp_(max=1.13)
    terms = [Term(term.reason, term.coefficient, term.magnitude * slope) for term in product]
    # erff and tanhf err by up to 2 units in the last place (CUDA C++ Programming Guide, "Mathematical
    # Functions"). With the roundings of their arguments and of the products around them: 3.9 * 2^-24 of x.
    terms.append(Term("GELU in fp32", 4 * 2.0**-24, x.abs()))
    fast = takes_fast_gelu(schedule)
    if approximate == "tanh":
        if fast or pass_configs.get("tl.enable_fast_math"):
            # PTX ISA 9.0, tanh.approx.f32: off by up to 2^-11 of itself, which is at most 1 and counts half.
            terms.append(Term("tanh.approx", 0.5 * 2.0**-11, x.abs()))
    elif fast:
        # The fit errs by 2^-13.695; the rest is for ex2.approx: 2^-22 of at most a half (PTX ISA 9.0).
        terms.append(Term("the tail of P by an exponential", 2.0**-13.69, x.abs()))
    return Reference(gelu(x, approximate=approximate), tuple(terms), open=past_range(product[0].magnitude))


def cost(M: int, N: int, K: int, dtype: str) -> Cost:
    # An erf or tanh counts as one operation; there are 5 more around it.
    return Cost(flops=2 * M * N * K + 7 * M * N, bytes=(M * K + K * N + N + M * N) * dtype_named(dtype).bytes)


def landmarks(
    case: Case, arch: Arch, schedule: Schedule, pass_configs: Mapping[str, Any]
) -> Iterator[Landmark]:
    """A product, to whose result threads add the bias before they store it."""
    yield from product_landmarks(case, arch, schedule, pass_configs)
    # The bias comes in pairs, as C goes; and tiles come by loads, if rows start where no cp.async can read.
    pair = pair_bytes(case, schedule)
    yield from global_accesses(min(row_unit(case), pair), 0 if stores_in_bulk(case, schedule) else pair)


def eager(A: torch.Tensor, B: torch.Tensor, bias: torch.Tensor, approximate: str) -> torch.Tensor:
    """Two kernels: cuBLAS with bias, then GELU."""
    with tf32_allowed():
        return gelu(torch.addmm(bias, A, B), approximate=approximate)


def compiled(A: torch.Tensor, B: torch.Tensor, bias: torch.Tensor, approximate: str) -> torch.Tensor:
    """What torch.compile makes of the same, for these shapes alone."""
    with tf32_allowed():
        return _compiled(A.shape, B.shape, A.dtype, approximate)(A, B, bias)


@lru_cache(maxsize=1)
def _compiled(_a, _b, _dtype, approximate):
    # Else code that is to fit any shape serves all rows but the first ones: up to 11 % slower on an H200.
    torch.compiler.reset()
    return torch.compile(
        lambda A, B, bias: gelu(torch.addmm(bias, A, B), approximate=approximate), dynamic=False
    )


def cublaslt(A: torch.Tensor, B: torch.Tensor, bias: torch.Tensor, approximate: str) -> torch.Tensor:
    """One kernel: the epilogue of cuBLASLt, which has GELU in its tanh form only."""
    if approximate != "tanh":
        raise NotImplementedError(f"cuBLASLt's epilogue has no GELU of the form {approximate!r}")
    with tf32_allowed():
        return torch._addmm_activation(bias, A, B, use_gelu=True)


def around_zero(A: torch.Tensor, K: int) -> dict[str, torch.Tensor]:
    """A @ B of standard deviation 1, where GELU is curved; as drawn it is sqrt(K), where GELU is x or 0."""
    return {"A": A / max(K, 1) ** 0.5}


def in_the_dip(A: torch.Tensor, bias: torch.Tensor, K: int) -> dict[str, torch.Tensor]:
    """x around -2: results are small there, and the two forms of GELU differ by up to 1 % of them."""
    return {"A": A / (4 * max(K, 1) ** 0.5), "bias": bias / 4 - 2}


def bias_only(A: torch.Tensor) -> dict[str, torch.Tensor]:
    """A of zeros: every row of C is gelu(bias), which no operand cut to tf32 blurs."""
    return {"A": torch.zeros_like(A)}


def special_values(A: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """NaN and infinity in two rows of A and two places of the bias: each spoils its row or column of C."""
    A, bias = A.clone(), bias.clone()
    A[A.shape[0] // 2, A.shape[1] // 3] = math.nan
    A[A.shape[0] // 3, A.shape[1] // 2] = math.inf
    bias[0], bias[-1] = math.nan, -math.inf
    return {"A": A, "bias": bias}


def _rows(
    id: str,
    dtypes: tuple[str, ...],
    approximate: str,
    M: int,
    N: int,
    K: int,
    why: str,
    draw: str = "around-zero",
) -> tuple[Case, ...]:
    return Case.per_dtype(dtypes, id, {"M": M, "N": N, "K": K}, why, {"approximate": approximate}, draw)


# Where the grid is small, tiles are 64 x 64 x 64 (32 deep in fp32), and 16 x 64 x 128 for M up to 16.
CASES = (
    *_rows("one-tile", ALL, "none", 64, 64, 64, "one tile, exact form"),
    *_rows("one-tile-tanh", ALL, "tanh", 64, 64, 64, "one tile, tanh form"),
    *_rows("all-over", ALL, "none", 65, 65, 65, "tails of one in M, N and K at once, exact form"),
    *_rows("all-over-tanh", ALL, "tanh", 65, 65, 65, "tails of one in M, N and K at once, tanh form"),
    *_rows("aligned-tails", ALL, "none", 72, 88, 104, "tails in M, N and K, past the edge of bulk copies"),
    *_rows("primes-tanh", ALL, "tanh", 61, 67, 71, "primes"),
    *_rows("n-short", FP16, "none", 64, 63, 64, "N one below a tile: the last bias is past the end"),
    *_rows("n-over", FP16, "none", 64, 65, 64, "N one above a tile: a block with a single bias"),
    *_rows("wide", FP16, "none", 33, 200, 48, "four tiles side by side, each with its own bias"),
    *_rows("single-element", ALL, "none", 1, 1, 1, "M = N = K = 1"),
    *_rows("vector-tanh", HALF, "tanh", 1, 136, 264, "M = 1, as in decoding"),
    *_rows("skinny", FP16, "none", 16, 64, 128, "the skinny tile, one trip"),
    *_rows("k-one", FP16, "none", 64, 64, 1, "K = 1: an outer product"),
    *_rows("k-zero", FP16, "none", 65, 66, 0, "K = 0: gelu(bias) in every row"),
    *_rows("trips-9-tanh", BF16, "tanh", 64, 64, 520, "more trips than twice the stages, and a tail in K"),
    *_rows("stride-8", FP16, "none", 64, 68, 68, "rows start at multiples of 8 bytes"),
    *_rows("far", HALF, "none", 64, 64, 256, "x far from zero: GELU is x or 0", "normal"),
    *_rows("far-tanh", HALF, "tanh", 64, 64, 256, "x far from zero: tanh saturates", "normal"),
    *_rows("dip", ALL, "none", 64, 72, 64, "negative results: the tanh form would not do", "in-the-dip"),
    *_rows(
        "dip-tanh", ALL, "tanh", 64, 72, 64, "negative results: the exact form would not do", "in-the-dip"
    ),
    *_rows("bias-only", ALL, "none", 66, 130, 64, "GELU of the right bias, to the last bit", "bias-only"),
    *_rows("bias-only-tanh", ALL, "tanh", 66, 130, 64, "the same in tanh form", "bias-only"),
    *_rows("eleven-bits", FP32, "none", 64, 72, 2, "no bit is lost before GELU", "eleven-bits"),
    *_rows("cancelling", FP16, "none", 64, 64, 256, "sums near zero of large products", "cancelling"),
    *_rows("special", ALL, "none", 65, 72, 70, "NaN and infinity spread along a row or column", "special"),
    *_rows("special-tanh", FP16, "tanh", 65, 72, 70, "the same in tanh form", "special"),
    # Under every schedule of the grid.
    *_rows("grid-tails-tanh", BF16, "tanh", 104, 168, 136, "2 to 5 trips; tails, as bulk copies cut them"),
    *_rows("grid-whole", FP16, "none", 192, 384, 80, "1, 2 and 3 trips"),
    # Model shapes.
    *_rows("llama8b-up-tanh", HALF, "tanh", 4096, 14336, 4096, "Llama-3-8B, up projection, prefill"),
    *_rows("llama8b-up", BF16, "none", 4096, 14336, 4096, "the same, exact form"),
    *_rows("llama8b-down-tanh", BF16, "tanh", 4096, 4096, 14336, "Llama-3-8B, down projection, prefill"),
    *_rows("llama8b-out-16-tanh", BF16, "tanh", 16, 4096, 4096, "Llama-3-8B, 16 sequences"),
    *_rows("dsv3-expert-down-tanh", BF16, "tanh", 128, 7168, 2048, "DeepSeek-V3, an expert, 128 tokens"),
    *_rows("square-4096-tanh", ALL, "tanh", 4096, 4096, 4096, "bound by tensor cores"),
    *_rows("square-2048-tanh", BF16, "tanh", 2048, 2048, 2048, "fewer blocks than two waves"),
)

LATENCY_CASES = (
    *("llama8b-up-tanh-fp16", "llama8b-up-tanh-bf16", "llama8b-up-bf16", "llama8b-down-tanh-bf16"),
    *("llama8b-out-16-tanh-bf16", "dsv3-expert-down-tanh-bf16", "square-2048-tanh-bf16"),
    *("square-4096-tanh-fp16", "square-4096-tanh-bf16", "square-4096-tanh-fp32"),
)

GRID = {
    "block_m": (16, 64, 128),
    "block_n": (8, 24, 64, 104, 128, 192),
    "block_k": (32, 48, 64, 80),
    "stages": (0, 1, 2, 3, 4),
    "threads": (64, 96, 128, 256, 384, 512),
    "swizzle": (0, 10),
    "blocks": (0, 3),
    "staged": (False, True),
    "pass_configs": ({}, {"tl.enable_fast_math": True}, {"tl.disable_warp_specialized": True}),
}

SPEC = KernelSpec(
    name="matmul_bias_gelu",
    program=program,
    reference=reference,
    outputs=("C",),
    cases=CASES,
    default_schedule=default_schedule,
    legal=legal,
    cost=cost,
    draws={
        "around-zero": around_zero,
        "in-the-dip": in_the_dip,
        "bias-only": bias_only,
        "eleven-bits": eleven_bits,
        "special": special_values,
    },
    vendor={"eager": eager, "compiled": compiled, "cublaslt": cublaslt},
    grid=GRID,
    # exp2 is one instruction then, without two more that keep results under the smallest normal number.
    pass_configs={"tl.device_compile_flags": ["-ftz=true"]},
    grid_cases=("grid-tails-tanh-bf16", "grid-whole-fp16"),
    latency_cases=LATENCY_CASES,
    landmarks=landmarks,
    shared_memory=shared_memory,
    code_cases=(
        "dsv3-expert-down-tanh-bf16",
        "all-over-fp16",
        "square-4096-tanh-fp32",
        "llama8b-out-16-tanh-bf16",
    ),
    tuning=TUNING,
    tuning_cases=("square-4096-tanh-bf16", "llama8b-up-tanh-bf16", "llama8b-out-16-tanh-bf16"),
    tiling=tiling,
)
