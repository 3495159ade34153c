"""The kernel that the doctor tries: a sum of two vectors, exact in every bit."""

from typing import Any

from tilecheck.spec import Case, KernelSpec, Reference


def _program(N: int, dtype: str, block: int = 512) -> Any:
    import tilelang.language as T

    @T.prim_func  # type: ignore[untyped-decorator]
    def probe(  # type: ignore[no-untyped-def]
        A: T.Tensor((N,), dtype),  # type: ignore[valid-type]
        B: T.Tensor((N,), dtype),  # type: ignore[valid-type]
        C: T.Tensor((N,), dtype),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(N, block), threads=128) as b:
            for i in T.Parallel(block):
                C[b * block + i] = A[b * block + i] + B[b * block + i]

    return probe


def _reference(A: Any, B: Any) -> Reference:
    return Reference((A + B).float(), exact=True)


SPEC = KernelSpec(
    "vector_add",
    _program,
    _reference,
    (Case("probe-fp32", {"N": 5000}, "float32", why="a few blocks, and a tail"),),
)
