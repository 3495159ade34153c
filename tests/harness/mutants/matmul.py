"""Wrong matrix products."""

from functools import partial

from tests.harness.mutants.engine import Mutant

_mutant = partial(Mutant, kernel="matmul")
_STAYING = ("grid-tails-fp16/block_n=128,swizzle=3,blocks=5",)  # 4 x 3 tiles: two panels, three turns
_staged_mutant = partial(_mutant, first=("grid-tails-fp16/staged=True",))
_SPLIT = ("grid-tails-fp16/stages=5,swizzle=0,splits=2",)  # each block of a cluster has two steps
_split_mutant = partial(_mutant, within="split", first=_SPLIT)
_adding_mutant = partial(_mutant, within="adding_shares", first=_SPLIT)
_walk_mutant = partial(_mutant, within="TileWalk", first=_STAYING)
_staying_mutant = partial(_mutant, within="persistent", first=_STAYING)
_turned_mutant = partial(_mutant, within="persistent_tf32", first=("grid-single-fp32/blocks=5",))

STORE = "T.copy(C_local, C[by * block_m, bx * block_n])"
STAGED_STORE = "T.copy(C_shared, C[by * block_m, bx * block_n])"
STORES = f"""\
if s.staged:
    C_shared = T.alloc_shared((block_m, block_n), dtype)
    T.copy(C_local, C_shared)
    {STAGED_STORE}
else:
    {STORE}"""
GEMM = "T.gemm(A_shared, B_shared, C_local, trans_a, trans_b, policy)"
LOAD_A = "T.copy(A[k * block_k, by * block_m] if trans_a else A[by * block_m, k * block_k], A_shared)"
LOAD_B = "T.copy(B[bx * block_n, k * block_k] if trans_b else B[k * block_k, bx * block_n], B_shared)"
TRIPS = "T.ceildiv(K, block_k), num_stages"
LAUNCH = "if arch.capability >= (9, 0):\n    launch_early()"
GRID = "T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by)"
TURNS = "(self._rows * self._columns - block + self.blocks - 1) // self.blocks"
PANEL = "number // (self._height * self._columns), number % (self._height * self._columns)"
CORNER = "(above + within % height) * self._block_m, within // height * self._block_n"
STAGE = "T.copy(C_local[0, part * half], C_shared)"
STORE_HALF = "T.copy(C_shared, C[m, n + part * half])"
BITS = 'T.reinterpret(T.reinterpret(C_local[i, j], "int32") & -1024, "float32")'
CUT = f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = {BITS} if dtype == "float32" else C_local[i, j]"""

MUTANTS = (
    # Bits of the sum.
    _mutant(
        id="sum-cut-to-14-bits",
        why="each trip loses 10 of the 24 bits of an fp32 sum",
        changes={GEMM: f"{GEMM}\n{CUT}"},
        first=("eleven-bits-trips-fp32",),
    ),
    _mutant(
        id="sum-cut-to-18-bits",
        why="each trip loses 6 of the 24 bits of an fp32 sum",
        changes={GEMM: f"{GEMM}\n{CUT}".replace("-1024", "-64")},
        first=("eleven-bits-trips-fp32",),
    ),
    _mutant(
        id="result-cut-to-14-bits",
        why="the result loses 10 of its 24 bits in fp32",
        changes={STORE: f"{CUT}\n{STORE}"},
        first=("eleven-bits-fp32",),
    ),
    _mutant(
        id="result-scaled-by-2e-16",
        why="fp32 results are off by 2^-16 of themselves",
        changes={STORE: f"{CUT}\n{STORE}".replace(BITS, "C_local[i, j] * (1 + 2.0**-16)")},
        first=("eleven-bits-fp32",),
    ),
    _mutant(
        id="trips-past-64-lost",
        why="only the first 64 tiles of K count",
        changes={GEMM: f"if k < 64:\n    {GEMM}"},
        first=("trips-66-fp16",),
    ),
    # The element type of the output.
    _mutant(
        id="output-wider",
        why="C is float32 where the case says less",
        changes={"C: T.Tensor((M, N), dtype)": 'C: T.Tensor((M, N), "float32")'},
        first=("n-over-fp16",),
    ),
    _mutant(
        id="output-narrower",
        why="C is bfloat16 whatever the case says",
        changes={"C: T.Tensor((M, N), dtype)": 'C: T.Tensor((M, N), "bfloat16")'},
        first=("one-tile-fp32",),
    ),
    # The grid and the place of a tile.
    _mutant(
        id="grid-n-rounded-down",
        why="no blocks for the tail in N",
        changes={"T.ceildiv(N, block_n)": "N // block_n"},
        first=("n-over-fp16",),
    ),
    _mutant(
        id="grid-m-rounded-down",
        why="no blocks for the tail in M",
        changes={"T.ceildiv(M, block_m)": "M // block_m"},
        first=("m-over-fp16",),
    ),
    _mutant(
        id="grid-m-one-short",
        why="no last row of blocks",
        changes={"T.ceildiv(M, block_m)": "T.ceildiv(M, block_m) - 1"},
        first=("last-panel-fp16",),
    ),
    _mutant(
        id="grid-swapped",
        why="as many blocks along N as M needs, and the other way round",
        changes={
            "T.ceildiv(N, block_n), T.ceildiv(M, block_m)": "T.ceildiv(M, block_m), T.ceildiv(N, block_n)"
        },
        first=("last-panel-fp16",),
    ),
    _mutant(
        id="block-indices-swapped",
        why="bx counts rows of blocks, of which there are as many as columns",
        changes={"as (bx, by)": "as (by, bx)"},
        first=("last-panel-fp16",),
    ),
    _mutant(
        id="rows-of-the-wrong-tile-height",
        why="tiles of A start at multiples of block_n",
        changes={LOAD_A: LOAD_A.replace("by * block_m", "by * block_n")},
        first=("grid-tails-fp16/block_n=192",),
    ),
    _mutant(
        id="columns-of-the-wrong-tile-width",
        why="tiles of B start at multiples of block_m",
        changes={LOAD_B: LOAD_B.replace("bx * block_n", "bx * block_m")},
        first=("vector-fp16",),
    ),
    _mutant(
        id="b-of-the-row-of-blocks",
        why="B is taken from the block's row, not from its column",
        changes={LOAD_B: LOAD_B.replace("bx * block_n", "by * block_n")},
        first=("n-over-fp16",),
    ),
    _mutant(
        id="a-of-the-first-rows",
        why="every block multiplies the first rows of A",
        changes={LOAD_A: LOAD_A.replace("by * block_m", "0")},
        first=("m-over-fp16",),
    ),
    _mutant(
        id="a-one-row-down",
        why="A is read one row further down",
        changes={LOAD_A: LOAD_A.replace("by * block_m", "by * block_m + 1")},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="last-rows-shifted-in",
        why="the last tile of A is moved up until it fits, its results are not",
        changes={LOAD_A: LOAD_A.replace("by * block_m", "T.min(by * block_m, T.max(M - block_m, 0))")},
        first=("m-over-fp16",),
    ),
    _mutant(
        id="stored-transposed",
        why="tile (bx, by) lands at (by, bx)",
        changes={STORE: "T.copy(C_local, C[bx * block_m, by * block_n])"},
        first=("m-over-fp16",),
    ),
    _mutant(
        id="stored-one-column-on",
        why="C is written one column further on",
        changes={STORE: "T.copy(C_local, C[by * block_m, bx * block_n + 1])"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="stored-around-the-edge",
        why="columns past the last are written at the beginning of the row",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m, block_n):
    C[by * block_m + i, (bx * block_n + j) % N] = C_local[i, j]"""
        },
        first=("n-short-fp16",),
    ),
    _mutant(
        id="stored-over-the-edge",
        why="whole tiles are stored, without TileLang's guards, past the end of C",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m, block_n):
    C[by * block_m + i, bx * block_n + j] = C_local[i, j]"""
        },
        options={"tl.disable_safe_memory_legalize": True},
        first=("m-short-fp16",),
    ),
    _mutant(
        id="lower-half-not-stored",
        why="only the upper half of each tile is written",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m // 2, block_n):
    C[by * block_m + i, bx * block_n + j] = C_local[i, j]"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="last-column-not-stored",
        why="a store that stops short of the last column of C",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m, block_n):
    if bx * block_n + j < N - 1:
        C[by * block_m + i, bx * block_n + j] = C_local[i, j]"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="columns-from-256-on-not-stored",
        why="wide matrices are not finished",
        changes={STORE: f"if bx * block_n < 256:\n    {STORE}"},
        first=("grid-tails-fp16",),
    ),
    _mutant(
        id="two-rows-of-blocks-to-one-tile",
        why="neighbouring blocks write the same tile",
        changes={STORE: "T.copy(C_local, C[by // 2 * block_m, bx * block_n])"},
        first=("m-over-fp16",),
    ),
    _mutant(
        id="every-tile-twice",
        why="two blocks write each element, a race even if they agree",
        changes={
            GRID: GRID.replace(", threads", ", 2, threads").replace("(bx, by)", "(bx, by, _)"),
        },
        first=("one-tile-fp16",),
    ),
    # The walk over K.
    _mutant(
        id="k-rounded-down",
        why="the tail in K is not added",
        changes={TRIPS: "K // block_k, num_stages"},
        first=("k-over-fp16",),
    ),
    _mutant(
        id="k-one-trip-short",
        why="the last tile of K is not added",
        changes={TRIPS: "T.ceildiv(K, block_k) - 1, num_stages"},
        first=("trips-2-fp16",),
    ),
    _mutant(
        id="k-last-tile-twice",
        why="one trip too many, over the last tile again",
        changes={
            TRIPS: "T.ceildiv(K, block_k) + 1, num_stages",
            LOAD_A: LOAD_A.replace("k * block_k", "T.min(k, T.ceildiv(K, block_k) - 1) * block_k"),
            LOAD_B: LOAD_B.replace("k * block_k", "T.min(k, T.ceildiv(K, block_k) - 1) * block_k"),
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="k-second-tile-skipped",
        why="one tile of K is not added",
        changes={GEMM: f"if k != 1:\n    {GEMM}"},
        first=("k-over-fp16",),
    ),
    _mutant(
        id="k-odd-tiles-skipped",
        why="steps two tiles at a time",
        changes={GEMM: f"if k % 2 == 0:\n    {GEMM}"},
        first=("trips-3-fp16",),
    ),
    _mutant(
        id="k-first-element-dropped",
        why="K is walked from 1 on",
        changes={
            LOAD_A: LOAD_A.replace("k * block_k", "k * block_k + 1"),
            LOAD_B: LOAD_B.replace("k * block_k", "k * block_k + 1"),
        },
        first=("counting-fp16",),
    ),
    _mutant(
        id="k-last-element-dropped",
        why="the last k of all counts as 0",
        changes={
            GEMM: f"""\
for i in T.Parallel(block_n):
    if k == (K - 1) // block_k:
        if trans_b:
            B_shared[i, (K - 1) % block_k] = 0
        else:
            B_shared[(K - 1) % block_k, i] = 0
{GEMM}"""
        },
        first=("counting-fp16",),
    ),
    _mutant(
        id="k-rounded-down-to-a-load",
        why="what a load of 16 bytes cannot hold of K counts as 0",
        changes={
            GEMM: f"""\
for i, j in T.Parallel(*b_tile):
    if k * block_k + (j if trans_b else i) >= K // 8 * 8:
        B_shared[i, j] = 0
{GEMM}"""
        },
        first=("stride-2-fp16",),
    ),
    _mutant(
        id="k-tiles-overlap",
        why="tiles of K start one element too early: an element of each is added twice",
        changes={
            LOAD_A: LOAD_A.replace("k * block_k", "k * (block_k - 1)"),
            LOAD_B: LOAD_B.replace("k * block_k", "k * (block_k - 1)"),
        },
        first=("trips-2-fp16",),
    ),
    _mutant(
        id="k-of-b-off-by-one",
        why="B is read one row further down than A's columns",
        changes={LOAD_B: LOAD_B.replace("k * block_k", "k * block_k + 1")},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="k-step-of-a-is-the-tile-width",
        why="A advances by block_n",
        changes={LOAD_A: LOAD_A.replace("k * block_k", "k * block_n")},
        first=("all-over-fp32",),
    ),
    _mutant(
        id="b-stale-every-other-trip",
        why="B's tile stays what it was on odd trips",
        changes={LOAD_B: f"if k % 2 == 0:\n    {LOAD_B}"},
        first=("trips-2-fp16",),
    ),
    _mutant(
        id="a-loaded-once",
        why="A's tile is that of the first trip",
        changes={LOAD_A: f"if k == 0:\n    {LOAD_A}"},
        first=("trips-2-fp16",),
    ),
    _mutant(
        id="b-not-loaded",
        why="multiplies shared memory that nothing has written",
        changes={LOAD_B: ""},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="multiplied-before-loaded",
        why="the product comes before the load of B, so that it uses the last trip's",
        changes={LOAD_B: GEMM, GEMM: LOAD_B},
        first=("trips-2-fp16",),
    ),
    # Transposition.
    _mutant(
        id="trans-a-ignored",
        why="A's tile is multiplied as it lies",
        changes={GEMM: GEMM.replace("trans_a", "False")},
        first=("tn-tails-fp16",),
    ),
    _mutant(
        id="trans-b-ignored",
        why="B's tile is multiplied as it lies",
        changes={GEMM: GEMM.replace("trans_b", "False")},
        first=("nt-tails-fp16",),
    ),
    _mutant(
        id="trans-a-indices-swapped",
        why="a transposed A is addressed as if it were not",
        changes={"A[k * block_k, by * block_m] if trans_a": "A[by * block_m, k * block_k] if trans_a"},
        first=("tn-tails-fp16",),
    ),
    _mutant(
        id="trans-b-indices-swapped",
        why="a transposed B is addressed as if it were not",
        changes={"B[bx * block_n, k * block_k] if trans_b": "B[k * block_k, bx * block_n] if trans_b"},
        first=("nt-tails-fp16",),
    ),
    # The accumulator, and what is made of it.
    _mutant(
        id="not-cleared",
        why="adds to registers that nothing has written",
        changes={"T.clear(C_local)": ""},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="cleared-once-for-two-tiles",
        why="a block that computes two tiles adds the first to the second",
        changes={
            GRID: GRID.replace("T.ceildiv(M, block_m)", "T.ceildiv(M, 2 * block_m)").replace("by)", "pair)"),
            "T.clear(C_local)": "T.clear(C_local)\nfor half in T.serial(2):\n    by = pair * 2 + half",
            f"for k in T.Pipelined({TRIPS}=stages):": f"    for k in T.Pipelined({TRIPS}=stages):",
            LOAD_A: f"    {LOAD_A}",
            LOAD_B: f"    {LOAD_B}",
            GEMM: f"    {GEMM}",
            STORES: f"    {STORE}",
        },
        first=("m-over-fp16",),
    ),
    _mutant(
        id="cleared-by-the-first-trip",
        why="without a trip nothing clears the accumulator",
        changes={"T.clear(C_local)": "", GEMM: GEMM.replace("policy)", "policy, clear_accum=k == 0)")},
        first=("k-zero-fp16",),
    ),
    _mutant(
        id="cleared-in-every-trip",
        why="only the last tile of K counts",
        changes={GEMM: GEMM.replace("policy)", "policy, clear_accum=True)")},
        first=("trips-2-fp16",),
    ),
    _mutant(
        id="accumulated-in-fp16",
        why="the sum is rounded to fp16 after each instruction",
        changes={'(block_m, block_n), "float32"': '(block_m, block_n), "float16"'},
        first=("counting-fp16",),
    ),
    _mutant(
        id="accumulated-in-bf16",
        why="the sum is rounded to bf16 after each instruction",
        changes={'(block_m, block_n), "float32"': '(block_m, block_n), "bfloat16"'},
        first=("counting-bf16",),
    ),
    _mutant(
        id="sum-kept-in-fp16-between-trips",
        why="the sum is rounded to fp16 once a trip",
        changes={
            GEMM: f"""\
{GEMM}
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.cast(T.cast(C_local[i, j], "float16"), "float32")"""
        },
        first=("counting-fp32",),
    ),
    _mutant(
        id="staged-in-bf16",
        why="tiles of A and B are kept in bf16",
        changes={
            "T.alloc_shared(a_tile, dtype)": 'T.alloc_shared(a_tile, "bfloat16")',
            "T.alloc_shared(b_tile, dtype)": 'T.alloc_shared(b_tile, "bfloat16")',
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="staged-in-fp16",
        why="tiles of A and B are kept in fp16: as many bits as tf32, but a smaller range",
        changes={
            "T.alloc_shared(a_tile, dtype)": 'T.alloc_shared(a_tile, "float16")',
            "T.alloc_shared(b_tile, dtype)": 'T.alloc_shared(b_tile, "float16")',
        },
        first=("wide-range-fp32",),
    ),
    _mutant(
        id="sum-once-in-fp16",
        why="the sum is rounded to fp16 once, halfway, as between the halves of a split K",
        changes={
            GEMM: f"""\
{GEMM}
if k + 1 == T.ceildiv(K, block_k) // 2:
    for i, j in T.Parallel(block_m, block_n):
        C_local[i, j] = T.cast(T.cast(C_local[i, j], "float16"), "float32")"""
        },
        first=("counting-fp32",),
    ),
    _mutant(
        id="a-cut-one-bit-short-of-tf32",
        why="A keeps 10 significant bits",
        changes={
            GEMM: f"""\
if dtype == "float32":
    for i, j in T.Parallel(*a_tile):
        A_shared[i, j] = T.reinterpret(T.reinterpret(A_shared[i, j], "int32") & -16384, "float32")
{GEMM}"""
        },
        first=("powers-of-two-fp32",),
    ),
    _mutant(
        id="b-cut-one-bit-short-of-tf32",
        why="B keeps 10 significant bits",
        changes={
            GEMM: f"""\
if dtype == "float32":
    for i, j in T.Parallel(*b_tile):
        B_shared[i, j] = T.reinterpret(T.reinterpret(B_shared[i, j], "int32") & -16384, "float32")
{GEMM}"""
        },
        first=("one-hot-fp32",),
    ),
    _mutant(
        id="result-cut",
        why="C is rounded to zero, not to the nearest",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.reinterpret(T.reinterpret(C_local[i, j], "int32") & -8192, "float32")
{STORE}"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="a-rounded-to-bf16",
        why="A loses bits on its way, B does not",
        changes={
            GEMM: f"""\
for i, j in T.Parallel(*a_tile):
    A_shared[i, j] = T.cast(T.cast(A_shared[i, j], "bfloat16"), dtype)
{GEMM}"""
        },
        first=("one-tile-fp32",),
    ),
    _mutant(
        id="result-rounded-to-bf16-first",
        why="C is rounded to bf16, then to its type",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.cast(T.cast(C_local[i, j], "bfloat16"), "float32")
{STORE}"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="result-a-little-large",
        why="C is scaled by 1 + 2^-12, half a unit in the last place of fp16",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] *= 1 + 2**-12
{STORE}"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="result-clamped",
        why="infinite results become the largest finite number",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.max(T.min(C_local[i, j], 65504.0), -65504.0)
{STORE}"""
        },
        first=("overflow-fp16",),
    ),
    _mutant(
        id="negative-results-lost",
        why="a ReLU that nobody asked for",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.max(C_local[i, j], 0.0)
{STORE}"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="nan-hidden",
        why="fmax with -inf turns NaN into -inf",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.max(C_local[i, j], -T.infinity("float32"))
{STORE}"""
        },
        first=("special-fp16",),
    ),
    _mutant(
        id="small-results-flushed",
        why="results below fp16's smallest normal number become 0",
        changes={
            STORE: f"""\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = T.if_then_else(T.abs(C_local[i, j]) < 2**-14, 0.0, C_local[i, j])
{STORE}"""
        },
        first=("last-panel-fp16",),
    ),
    _mutant(
        id="adds-to-the-output",
        why="C is updated, not written: right only if the caller has cleared it",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m, block_n):
    T.atomic_add(C[by * block_m + i, bx * block_n + j], T.cast(C_local[i, j], dtype))"""
        },
        first=("one-tile-fp32",),
    ),
    _mutant(
        id="input-overwritten",
        why="B's tile is written back over another one",
        changes={
            STORE: f"""\
{STORE}
T.copy(B_shared, B[0, 0])"""
        },
        first=("k-over-fp16",),
    ),
    # Launches that begin early.
    _mutant(
        id="launch-before-not-awaited",
        why="A and B are read while the launch before may still write them",
        changes={
            LAUNCH: "",
            "# Round once and store.": LAUNCH,
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="launch-before-awaited-by-half",
        why="only the first column of blocks waits for the launch before",
        changes={"if arch.capability >= (9, 0):": "if bx == 0:"},
        first=("n-over-fp16",),
    ),
    # Tiles of C that go through shared memory.
    _staged_mutant(
        id="staged-stored-before-written",
        why="shared memory is stored before the sum is in it",
        changes={"T.copy(C_local, C_shared)": STAGED_STORE, STAGED_STORE: "T.copy(C_local, C_shared)"},
    ),
    _staged_mutant(
        id="staged-not-written",
        why="what is stored is memory that nothing has written",
        changes={"T.copy(C_local, C_shared)": ""},
    ),
    _staged_mutant(
        id="staged-upper-half-only",
        why="the lower half of a tile does not reach shared memory",
        changes={
            "T.copy(C_local, C_shared)": """\
for i, j in T.Parallel(block_m // 2, block_n):
    C_shared[i, j] = C_local[i, j]"""
        },
    ),
    _staged_mutant(
        id="staged-tail-not-stored",
        why="tiles that reach over the last row are not stored",
        changes={STAGED_STORE: f"if (by + 1) * block_m <= M:\n    {STAGED_STORE}"},
    ),
    _staged_mutant(
        id="staged-in-bf16-first",
        why="the sum is rounded to bf16, then to fp16",
        changes={
            "T.alloc_shared((block_m, block_n), dtype)": 'T.alloc_shared((block_m, block_n), "bfloat16")'
        },
    ),
    # Blocks of a cluster that share K out.
    _split_mutant(
        id="split-k-rounded-down",
        why="what is left of K after whole shares is not added",
        changes={"_ceildiv(_ceildiv(K, block_k), splits)": "_ceildiv(K, block_k) // splits"},
        first=("aligned-tails-fp16/stages=5,swizzle=0,splits=8",),
    ),
    _split_mutant(
        id="split-last-step-of-a-share-dropped",
        why="each share ends a step early",
        changes={"T.Pipelined(steps,": "T.Pipelined(steps - 1,"},
    ),
    _split_mutant(
        id="split-shares-overlap",
        why="the last step of a share is the first of the next: it is added twice",
        changes={"(share * steps + k) * block_k": "(share * (steps - 1) + k) * block_k"},
    ),
    _split_mutant(
        id="split-one-share-for-all",
        why="every block sums the first share of K",
        changes={"(share * steps + k) * block_k": "k * block_k"},
    ),
    _split_mutant(
        id="split-rows-to-one-place",
        why="all blocks store the first rows of the tile",
        changes={"by * block_m + share * rows": "by * block_m"},
    ),
    _split_mutant(
        id="split-left-early",
        why="a block may end while its sums are read",
        changes={"T.cluster_wait()": ""},
    ),
    _split_mutant(
        id="split-launch-before-not-awaited",
        why="TileLang lets clusters begin early, and nothing waits for the launch before",
        changes={"launch_early()": ""},
    ),
    _adding_mutant(
        id="split-own-share-dropped",
        why="what a block has summed itself is not in the result",
        changes={"own[share * rows + i // block_n, i % block_n]": "0.0"},
    ),
    _adding_mutant(
        id="split-one-share-dropped",
        why="the sums of one block are not added",
        changes={"T.unroll(splits - 1)": "T.unroll(splits - 2)"},
        first=("grid-tails-fp16/stages=8,swizzle=0,splits=4",),
    ),
    _adding_mutant(
        id="split-one-share-for-another",
        why="the sums of the next block are added for each other one",
        changes={"others[step * rows + i // block_n": "others[i // block_n"},
        first=("grid-tails-fp16/stages=8,swizzle=0,splits=4",),
    ),
    _adding_mutant(
        id="split-own-share-twice",
        why="each block sends the sums of its own rows",
        changes={"own[peer * rows : (peer + 1) * rows, :]": "own[share * rows : (share + 1) * rows, :]"},
    ),
    _adding_mutant(
        id="split-sent-to-the-wrong-block",
        why="rows go to the block after the one that is to finish them",
        changes={"dst_block=peer": "dst_block=(peer + 1) % splits"},
    ),
    _adding_mutant(
        id="split-sent-before-written",
        why="sums are sent before they are in shared memory",
        changes={
            "T.copy(C_local, own[:, 0:block_n])": "",
            "T.mbarrier_wait_parity(arrived[0], 0)": (
                "T.copy(C_local, own[:, 0:block_n])\nT.mbarrier_wait_parity(arrived[0], 0)"
            ),
        },
    ),
    _adding_mutant(
        id="split-sums-not-awaited",
        why="the sums of other blocks are added before they have come",
        changes={"T.mbarrier_wait_parity(arrived[0], 0)": ""},
    ),
    _adding_mutant(
        id="split-tiles-overwritten",
        why="sums come to where another block still multiplies tiles",
        changes={
            "T.cluster_arrive()\nT.copy(C_local, own[:, 0:block_n])": "T.copy(C_local, own[:, 0:block_n])",
            "T.cluster_wait()": "",
        },
    ),
    # Blocks that stay: their walk over the tiles.
    _walk_mutant(
        id="staying-last-turn-lost",
        why="blocks take as many tiles as all of them have; what is left over is not done",
        changes={TURNS: "self._rows * self._columns // self.blocks"},
    ),
    _walk_mutant(
        id="staying-for-one-tile",
        why="as many tiles are done as there are blocks",
        changes={TURNS: "1"},
    ),
    _walk_mutant(
        id="staying-tiles-skipped",
        why="between two turns a tile is left out",
        changes={"turn * self.blocks": "turn * (self.blocks + 1)"},
    ),
    _walk_mutant(
        id="staying-tiles-done-twice",
        why="the last block of a turn and the first of the next take the same tile",
        changes={"turn * self.blocks": "turn * (self.blocks - 1)"},
    ),
    _walk_mutant(
        id="staying-last-panel-too-high",
        why="the last panel is taken to be as high as the others",
        changes={"if self._rows % height": "if False"},
    ),
    _walk_mutant(
        id="staying-panels-of-rows",
        why="a panel has as many columns of tiles as there are rows",
        changes={PANEL: PANEL.replace("_columns", "_rows")},
    ),
    _walk_mutant(
        id="staying-rows-for-columns",
        why="the tile lies at its column's row and at its row's column",
        changes={CORNER: "within // height * self._block_m, (above + within % height) * self._block_n"},
    ),
    _walk_mutant(
        id="staying-panels-start-at-the-first-row",
        why="every panel is the first",
        changes={CORNER: CORNER.replace("above + ", "")},
    ),
    # And what becomes of a tile.
    _staying_mutant(
        id="staying-sum-not-cleared",
        why="a tile's sum begins with that of the tile before",
        changes={"clear_accum=k == 0": "clear_accum=turn + k == 0"},
    ),
    _staying_mutant(
        id="staying-k-rounded-down",
        why="the tail in K is not added",
        changes={"T.ceildiv(K, block_k)": "K // block_k"},
    ),
    _staying_mutant(
        id="staying-b-of-the-first-tile",
        why="a block keeps the columns of B of its first tile",
        changes={
            "B[n, k * block_k] if trans_b else B[k * block_k, n]": "B[k * block_k, walk.corner(block, 0)[1]]"
        },
    ),
    _staying_mutant(
        id="staying-stored-before-rounded",
        why="what is stored is the half that was in shared memory before",
        changes={STAGE: STORE_HALF, STORE_HALF: STAGE},
    ),
    _staying_mutant(
        id="staying-staged-once",
        why="from the second turn on, blocks store what the first left in shared memory",
        changes={STAGE: f"if turn == 0:\n    {STAGE}"},
    ),
    _staying_mutant(
        id="staying-second-half-not-stored",
        why="half of each tile is stored",
        changes={"T.unroll(2": "T.unroll(1"},
    ),
    _staying_mutant(
        id="staying-first-half-twice",
        why="both halves of a tile are the first",
        changes={STAGE: STAGE.replace("part * half", "0")},
    ),
    _staying_mutant(
        id="staying-halves-to-one-place",
        why="the second half is stored over the first",
        changes={STORE_HALF: STORE_HALF.replace(" + part * half", "")},
    ),
    _staying_mutant(
        id="staying-tail-in-m-not-stored",
        why="tiles that reach over the last row are not stored",
        changes={STORE_HALF: f"if m + block_m <= M:\n    {STORE_HALF}"},
    ),
    _staying_mutant(
        id="staying-tail-in-n-not-stored",
        why="halves that reach over the last column are not stored",
        changes={STORE_HALF: f"if n + (part + 1) * half <= N:\n    {STORE_HALF}"},
    ),
    _staying_mutant(
        id="staying-launch-before-not-awaited",
        why="tiles are taken while the launch before may still write A and B",
        changes={
            'with T.ws_op("launch"):\n    launch_early()': "",
            STORE_HALF: f"{STORE_HALF}\nlaunch_early()",
        },
    ),
    _turned_mutant(
        id="turned-sum-not-cleared",
        why="a tile's sum begins with that of the tile before",
        changes={"clear_accum=k == 0": "clear_accum=turn + k == 0"},
    ),
    _turned_mutant(
        id="turned-b-once",
        why="registers keep the tile of B of the first step",
        changes={"B_local[i, j] = B_shared[j, i]": "if k == 0:\n    B_local[i, j] = B_shared[j, i]"},
    ),
    _turned_mutant(
        id="turned-tail-not-stored",
        why="tiles that reach over the last row are not stored",
        changes={
            "C[m + i, n + j] = C_local[j, i]": "if m + block_m <= M:\n    C[m + i, n + j] = C_local[j, i]"
        },
    ),
    _turned_mutant(
        id="turned-back-to-the-first-rows",
        why="the transpose of a tile is stored in the first rows of C",
        changes={"C[m + i, n + j]": "C[i, n + j]"},
    ),
    # What only a GPU shows.
    _mutant(
        id="tiles-without-barriers",
        why="threads multiply tiles that others are still loading",
        changes={},
        options={"tl.disable_thread_storage_sync": True},
        # mma, by which each warp multiplies what others load; in wgmma four warps wait for each other.
        first=("tt-tails-fp32", "primes-fp32", "all-over-fp32", "nt-tails-fp32", "odd-4095-fp16"),
        unseen="barriers between threads",
    ),
    _mutant(
        id="copies-not-awaited",
        why="tiles are multiplied while cp.async is still filling them",
        changes={
            LOAD_A: LOAD_A.replace("T.copy", "T.async_copy"),
            LOAD_B: LOAD_B.replace("T.copy", "T.async_copy"),
            "num_stages=stages": "num_stages=0",
        },
        first=("one-tile-fp16", "trips-9-fp16", "square-4096-fp16"),
        unseen="asynchronous copies: they are done at once",
    ),
)
