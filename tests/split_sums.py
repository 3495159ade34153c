"""Products of few blocks, cut along K as well: blocks that each hold a share of the sum have to add up.

In a fixed order, through a workspace, the bits are the same each time. In the order in which they come, they
are not: fp32 addition is not associative.
"""

import torch

from kernels.matmul import product_terms
from tilecheck.spec import Case, KernelSpec, Reference, Term

BLOCK, DEPTH = 64, 32


def in_fixed_order(M, N, K, splits, dtype):
    import tilelang.language as T

    share = K // splits

    @T.prim_func
    def split_k(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        parts: T.Tensor((splits, M, N), "float32"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), splits, threads=128) as (bx, by, s):
            A_shared = T.alloc_shared((BLOCK, DEPTH), dtype)
            B_shared = T.alloc_shared((DEPTH, BLOCK), dtype)
            part = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(part)
            for k in T.Pipelined(share // DEPTH, num_stages=2):
                T.copy(A[by * BLOCK, s * share + k * DEPTH], A_shared)
                T.copy(B[s * share + k * DEPTH, bx * BLOCK], B_shared)
                T.gemm(A_shared, B_shared, part)
            T.copy(part, parts[s, by * BLOCK, bx * BLOCK])

        # A second launch: every share is there.
        with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), threads=128) as (bx, by):
            part = T.alloc_fragment((BLOCK, BLOCK), "float32")
            total = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(total)
            for s in T.serial(splits):
                T.copy(parts[s, by * BLOCK, bx * BLOCK], part)
                for i, j in T.Parallel(BLOCK, BLOCK):
                    total[i, j] += part[i, j]
            T.copy(total, C[by * BLOCK, bx * BLOCK])

    return split_k


def as_they_come(M, N, K, splits, dtype):
    import tilelang.language as T

    share = K // splits

    @T.prim_func
    def split_k(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, BLOCK), T.ceildiv(M, BLOCK), splits, threads=128) as (bx, by, s):
            A_shared = T.alloc_shared((BLOCK, DEPTH), dtype)
            B_shared = T.alloc_shared((DEPTH, BLOCK), dtype)
            part = T.alloc_fragment((BLOCK, BLOCK), "float32")
            T.clear(part)
            for k in T.Pipelined(share // DEPTH, num_stages=2):
                T.copy(A[by * BLOCK, s * share + k * DEPTH], A_shared)
                T.copy(B[s * share + k * DEPTH, bx * BLOCK], B_shared)
                T.gemm(A_shared, B_shared, part)
            T.atomic_add(C[by * BLOCK, bx * BLOCK], part)

    return split_k


def shares(A, B, K, splits, dtype):
    """The sum, and what each block of `in_fixed_order` has of it."""
    M, N, share = A.shape[0], B.shape[1], K // splits
    cut = A.view(M, splits, share).transpose(0, 1), B.view(splits, share, N)
    parts = torch.stack([product_terms(a, b, dtype)[0].magnitude for a, b in zip(*cut, strict=True)])
    steps = product_terms(cut[0][0], cut[1][0], dtype)[0].coefficient
    return {
        "C": sum_of(A, B, splits, dtype),
        "parts": Reference(cut[0] @ cut[1], (Term("accumulation in fp32", steps, parts),)),
    }


def sum_of(A, B, splits, dtype):
    terms = product_terms(A, B, dtype)
    adding = Term("adding the shares up", splits * 2.0**-24, A.abs() @ B.abs())
    return Reference(A @ B, (*terms, adding))


CASES = (Case("deep", {"M": 72, "N": 136, "K": 4096, "splits": 32}, "float16", why="6 blocks, 32 shares"),)

FIXED = KernelSpec(
    "split_k_fixed",
    in_fixed_order,
    shares,
    CASES,
    outputs=("C", "parts"),
    zeroed=("parts",),  # the second launch reads what the first has written, and nothing before it
    dtypes={"parts": "float32"},
)

ATOMIC = KernelSpec(
    "split_k_atomic", as_they_come, sum_of, CASES, outputs=("C",), zeroed=("C",), dtypes={"C": "float32"}
)

SPECS = (FIXED, ATOMIC)
