"""Wrong vector additions."""

from functools import partial

from tests.harness.mutants.engine import Mutant

_mutant = partial(Mutant, kernel="vector_add")

STORE = "T.copy(A_local, C[bx * block])"
ADD = "A_local[i] += B_local[i]"
LOAD_A = "T.copy(A[bx * block], A_local)"
LOAD_B = "T.copy(B[bx * block], B_local)"

MUTANTS = (
    _mutant(
        id="grid-rounded-down",
        why="no block for the tail",
        changes={"T.ceildiv(N, block)": "N // block"},
        first=("block-over-fp32",),
    ),
    _mutant(
        id="grid-one-short",
        why="no last block",
        changes={"T.ceildiv(N, block)": "T.ceildiv(N, block) - 1"},
        first=("block-fp32",),
    ),
    _mutant(
        id="tail-dropped-by-a-condition",
        why="a block that reaches over the end stores nothing",
        changes={STORE: "if (bx + 1) * block <= N:\n    T.copy(A_local, C[bx * block])"},
        first=("aligned-tail-fp16",),
    ),
    _mutant(
        id="last-element-dropped",
        why="the store ends one element early",
        changes={
            STORE: """\
for i in T.Parallel(block):
    if bx * block + i < N - 1:
        C[bx * block + i] = A_local[i]"""
        },
        first=("prime-bf16",),
    ),
    _mutant(
        id="loop-one-short",
        why="the last element of each block stays what A is",
        changes={"T.Parallel(block)": "T.Parallel(block - 1)"},
        first=("block-fp32",),
    ),
    _mutant(
        id="loop-one-long",
        why="one element past the block's registers",
        changes={"T.Parallel(block)": "T.Parallel(block + 1)"},
        first=("block-fp32",),
    ),
    _mutant(
        id="a-from-before-its-start",
        why="A is read from one element before each block",
        changes={LOAD_A: "T.copy(A[bx * block - 1], A_local)"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="half-a-block-added",
        why="the second half of each block stays what A is",
        changes={"T.Parallel(block)": "T.Parallel(block // 2)"},
        first=("block-fp16",),
    ),
    _mutant(
        id="difference",
        why="subtracts",
        changes={ADD: "A_local[i] -= B_local[i]"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="a-twice",
        why="adds A to itself; B is not used",
        changes={ADD: "A_local[i] += A_local[i]"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="b-reversed",
        why="B is walked backwards within a block",
        changes={"+= B_local[i]": "+= B_local[block - 1 - i]"},
        first=("block-fp32",),
    ),
    _mutant(
        id="b-off-by-one",
        why="B is read one element further on",
        changes={LOAD_B: "T.copy(B[bx * block + 1], B_local)"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="b-of-the-first-block",
        why="every block adds the first block of B",
        changes={LOAD_B: "T.copy(B[0], B_local)"},
        first=("block-over-fp16",),
    ),
    _mutant(
        id="b-with-another-stride",
        why="blocks of B are taken to be one element per thread",
        changes={LOAD_B: "T.copy(B[bx * threads], B_local)"},
        first=("block-over-fp16",),
    ),
    _mutant(
        id="b-not-loaded",
        why="adds registers that nothing has written",
        changes={LOAD_B: ""},
        first=("seven-fp32",),
    ),
    _mutant(
        id="store-off-by-one",
        why="C is written one element further on: the first element of all never",
        changes={STORE: "T.copy(A_local, C[bx * block + 1])"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="store-over-the-end",
        why="whole blocks are stored, without TileLang's guards, past the end of C",
        changes={STORE: "for i in T.Parallel(block):\n    C[bx * block + i] = A_local[i]"},
        options={"tl.disable_safe_memory_legalize": True},
        first=("seven-fp32",),
    ),
    _mutant(
        id="store-of-every-block-to-the-first",
        why="all blocks write the same elements",
        changes={STORE: "T.copy(A_local, C[0])"},
        first=("block-over-fp16",),
    ),
    _mutant(
        id="blocks-overlap",
        why="each block stores half a block too early",
        changes={STORE: "T.copy(A_local, C[bx * (block // 2)])"},
        first=("prime-fp32",),
    ),
    _mutant(
        id="every-tile-twice",
        why="two blocks write each element, a race even if they agree",
        changes={
            "T.Kernel(T.ceildiv(N, block), threads=threads) as bx": (
                "T.Kernel(T.ceildiv(N, block), 2, threads=threads) as (bx, _)"
            )
        },
        first=("seven-fp32",),
    ),
    _mutant(
        id="input-overwritten",
        why="the sum is written over A as well",
        changes={STORE: f"{STORE}\nT.copy(A_local, A[bx * block])"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="adds-to-the-output",
        why="C is updated, not written: right only if the caller has cleared it",
        changes={STORE: "for i in T.Parallel(block):\n    T.atomic_add(C[bx * block + i], A_local[i])"},
        first=("seven-fp32",),
    ),
    _mutant(
        id="rounded-to-fp16",
        why="B loses bits on its way",
        changes={"+= B_local[i]": '+= T.cast(T.cast(B_local[i], "float16"), dtype)'},
        first=("prime-fp32",),
    ),
    _mutant(
        id="rounded-to-bf16",
        why="B loses bits on its way",
        changes={"+= B_local[i]": '+= T.cast(T.cast(B_local[i], "bfloat16"), dtype)'},
        first=("prime-fp16",),
    ),
    _mutant(
        id="rounded-twice",
        why="the sum of two fp32 numbers is cut to tf32's bits before it is rounded to the type",
        changes={
            ADD: """\
total = T.cast(A_local[i], "float32") + T.cast(B_local[i], "float32")
A_local[i] = T.cast(T.reinterpret(T.reinterpret(total, "int32") & -8192, "float32"), dtype)"""
        },
        first=("halfway-fp16",),
    ),
    _mutant(
        id="halves-rounded-up",
        why="a sum half way between two numbers goes to the larger, not to the even one",
        changes={
            ADD: """\
total = T.cast(A_local[i], "float32") + T.cast(B_local[i], "float32")
A_local[i] = T.cast(total * (1 + 2**-20), dtype)"""
        },
        first=("halfway-fp16",),
    ),
    _mutant(
        id="nan-hidden",
        why="fmax with -inf turns NaN into -inf",
        changes={ADD: "A_local[i] = T.max(A_local[i] + B_local[i], -T.infinity(dtype))"},
        first=("special-fp32",),
    ),
    _mutant(
        id="infinity-clamped",
        why="a sum past the largest number saturates",
        changes={ADD: "A_local[i] = T.min(A_local[i] + B_local[i], T.max_value(dtype))"},
        first=("special-fp32",),
    ),
    _mutant(
        id="denormals-flushed",
        why="sums below 2^-126 (2^-14 in fp16) become 0",
        changes={
            ADD: """\
A_local[i] += B_local[i]
smallest = 2.0**-14 if dtype == "float16" else 2.0**-126
A_local[i] = T.if_then_else(T.abs(A_local[i]) < T.cast(smallest, dtype), T.cast(0, dtype), A_local[i])"""
        },
        first=("special-fp16",),
    ),
    _mutant(
        id="negative-zero-lost",
        why="-0 becomes +0",
        changes={
            ADD: """\
A_local[i] += B_local[i]
A_local[i] = T.if_then_else(A_local[i] == 0, T.cast(0, dtype), A_local[i])"""
        },
        first=("special-bf16",),
    ),
    _mutant(
        id="touched-before-the-launch-before-has-ended",
        why="A may not be there yet: the launch that writes it is still at work",
        changes={
            "T.pdl_sync()": "",
            LOAD_A: f"{LOAD_A}\nif arch.capability >= (9, 0):\n    T.pdl_sync()",
        },
        first=("seven-fp32",),
    ),
    # What only a GPU shows.
    _mutant(
        id="exchange-without-barrier",
        why="threads hand B on through shared memory, and nothing makes them wait for each other",
        changes={
            LOAD_A: "B_shared = T.alloc_shared((block,), dtype)",
            LOAD_B: """\
for i in T.Parallel(block):
    A_local[i] = A[bx * block + block - 1 - i]
    B_shared[i] = B[bx * block + i]""",
            "+= B_local[i]": "+= B_shared[block - 1 - i]",
            STORE: """\
for i in T.Parallel(block):
    C[bx * block + block - 1 - i] = A_local[i]""",
        },
        options={"tl.disable_thread_storage_sync": True},
        first=("power-fp32", "prime-fp16", "million-odd-fp16", "2e20-fp32"),
        unseen="barriers between threads",
    ),
    # Element types: every bound is that of the type which the case says.
    _mutant(
        id="output-wider",
        why="C is float32 where the case says less",
        changes={"C: T.Tensor((N,), dtype)": 'C: T.Tensor((N,), "float32")'},
        first=("prime-fp16",),
    ),
    _mutant(
        id="input-wider",
        why="B is float32 where the case says less",
        changes={"B: T.Tensor((N,), dtype)": 'B: T.Tensor((N,), "float32")'},
        first=("prime-fp16",),
    ),
    _mutant(
        id="blocks-past-2000-lost",
        why="only the first 2000 blocks store",
        changes={"T.copy(A_local, C[bx * block])": "if bx < 2000:\n    T.copy(A_local, C[bx * block])"},
        first=("many-blocks-fp32",),
    ),
    _mutant(
        id="fast-math",
        why="denormal sums are flushed to 0",
        changes={},
        options={"tl.enable_fast_math": True},
        first=("special-fp32",),
        unseen="options of the compiler that change arithmetic",
    ),
)
