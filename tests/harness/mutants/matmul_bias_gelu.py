"""Wrong products with bias and GELU: their epilogues, mostly, since the product is that of `matmul`."""

from functools import partial

from tests.harness.mutants.engine import Mutant

_mutant = partial(Mutant, kernel="matmul_bias_gelu")
_gelu_mutant = partial(_mutant, within="gelu_of_twice")
_split_mutant = partial(_mutant, within="split", first=("grid-tails-tanh-bf16/stages=5,swizzle=0,splits=2",))
_staying_mutant = partial(_mutant, within="persistent")

WHOLE = ("grid-whole-fp16/block_n=128,blocks=3",)
STAYING = ("grid-tails-tanh-bf16/block_n=128,blocks=3",)  # 2 x 2 tiles, two turns

STORE = "T.copy(C_local, C[by * block_m, bx * block_n])"
GEMM = "T.gemm(A_shared, B_shared, C_local, policy=policy)"
ADD = "C_local[i, j] = 0.5 * C_local[i, j] + half_bias[j]"
GELU = "C_local[i, j] = gelu_of_twice(C_local[i, j], approximate, fast)"
SLOPE = "slope = 2 * math.sqrt(2 / math.pi)"
ARGUMENT = "u = half * (slope + slope * 4 * 0.044715 * (half * half))"
TANH = 'return half + half * (T.call_pure_extern("float32", "__tanhf", u) if fast else T.tanh(u))'
ERF = "return half + half * T.erf(math.sqrt(2) * half)"
TAIL = "return half + T.abs(half) * (1.0 - T.exp2(exponent))"
STORES = f"""\
if s.staged:
    C_shared = T.alloc_shared((block_m, block_n), dtype)
    T.copy(C_local, C_shared)
    T.copy(C_shared, C[by * block_m, bx * block_n])
else:
    {STORE}"""
STAGE = "C_shared = T.alloc_shared((block_m, block_n), dtype)\nT.copy(C_local, C_shared)"
LOAD_BIAS = "T.copy(bias[bx * block_n], half_bias)"

MUTANTS = (
    # The bias.
    _mutant(
        id="bias-forgotten",
        why="no bias is added",
        changes={ADD: "C_local[i, j] = 0.5 * C_local[i, j]"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-along-m",
        why="bias goes by rows",
        changes={ADD: ADD.replace("half_bias[j]", "half_bias[i]")},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-of-the-first-columns",
        why="every block adds the bias of the first columns",
        changes={LOAD_BIAS: "T.copy(bias[0], half_bias)"},
        first=("wide-fp16",),
    ),
    _mutant(
        id="bias-of-the-wrong-tile-width",
        why="blocks of bias start at multiples of block_m",
        changes={LOAD_BIAS: "T.copy(bias[bx * block_m], half_bias)"},
        first=("vector-tanh-fp16",),
    ),
    _mutant(
        id="bias-of-the-row-of-blocks",
        why="bias is taken from the block's row, not from its column",
        changes={LOAD_BIAS: "T.copy(bias[T.get_block_binding(1) * block_n], half_bias)"},
        first=("wide-fp16",),
    ),
    _mutant(
        id="bias-off-by-one",
        why="bias is that of the next column",
        changes={LOAD_BIAS: "T.copy(bias[bx * block_n + 1], half_bias)"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-not-at-the-last-column",
        why="the last column of all gets no bias",
        changes={
            ADD: ADD.replace("half_bias[j]", "T.if_then_else(bx * block_n + j < N - 1, half_bias[j], 0.0)")
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-not-in-the-tail",
        why="a tile that reaches over the edge gets no bias",
        changes={LOAD_BIAS: f"T.clear(half_bias)\nif (bx + 1) * block_n <= N:\n    {LOAD_BIAS}"},
        first=("n-over-fp16",),
    ),
    _mutant(
        id="bias-not-loaded",
        why="adds registers that nothing has written",
        changes={LOAD_BIAS: "T.evaluate(0)"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-twice",
        why="adds it twice",
        changes={ADD: ADD.replace("half_bias[j]", "2 * half_bias[j]")},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-in-every-trip",
        why="bias is added once for each tile of K",
        changes={
            GEMM: f"{GEMM}\nfor i, j in T.Parallel(block_m, block_n):\n    C_local[i, j] += 2 * half_bias[j]",
            ADD: "C_local[i, j] = 0.5 * C_local[i, j]",
        },
        first=("all-over-fp16",),
    ),
    _mutant(
        id="bias-after-gelu",
        why="the order of the two is swapped",
        changes={
            ADD: "C_local[i, j] = 0.5 * C_local[i, j]",
            GELU: f"{GELU}\nC_local[i, j] += 2 * half_bias[j]",
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-in-bf16",
        why="bias is held in bf16",
        changes={'(block_n,), "float32"': '(block_n,), "bfloat16"'},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="bias-past-the-end",
        why="bias is read, without TileLang's guards, past its end",
        changes={LOAD_BIAS: "for j in T.Parallel(block_n):\n    half_bias[j] = bias[bx * block_n + j]"},
        options={"tl.disable_safe_memory_legalize": True},
        first=("n-short-fp16",),
    ),
    # GELU.
    _mutant(
        id="gelu-forgotten",
        why="no GELU",
        changes={GELU: "C_local[i, j] *= 2"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="gelu-twice",
        why="GELU of GELU",
        changes={GELU: f"{GELU}\n{GELU.replace('(C_local', '(0.5 * C_local')}"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="stored-before-gelu",
        why="GELU comes after the store",
        changes={
            GELU: "C_local[i, j] *= 2",
            STORE: f"{STORE}\nfor i, j in T.Parallel(block_m, block_n):\n    {GELU}",
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="gelu-not-at-the-last-column",
        why="the loop over a tile ends one column early",
        changes={"T.Parallel(block_m, block_n)": "T.Parallel(block_m, block_n - 1)"},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="gelu-not-at-the-last-row",
        why="the loop over a tile ends one row early",
        changes={"T.Parallel(block_m, block_n)": "T.Parallel(block_m - 1, block_n)"},
        first=("one-tile-fp16",),
    ),
    _gelu_mutant(
        id="forms-swapped",
        why="the tanh form where the exact one is asked for, and the other way round",
        changes={'if approximate == "tanh"': 'if approximate != "tanh"'},
        first=("dip-fp16",),
    ),
    _gelu_mutant(
        id="form-ignored",
        why="always the exact form",
        changes={'if approximate == "tanh"': "if False"},
        first=("dip-tanh-fp16",),
    ),
    _gelu_mutant(
        id="half-of-cdf-missing",
        why="P runs from -1/2 to 1/2",
        changes={ERF: ERF.replace("half + ", ""), TANH: TANH.replace("half + ", "")},
        first=("one-tile-fp16",),
    ),
    _gelu_mutant(
        id="cdf-twice-as-high",
        why="1 + erf is not halved",
        changes={ERF: f"return 2 * ({ERF.removeprefix('return ')})"},
        first=("one-tile-fp16",),
    ),
    _gelu_mutant(
        id="erf-of-x",
        why="x is not divided by the root of 2",
        changes={ERF: "return half + half * T.erf(2 * half)"},
        first=("one-tile-fp16",),
    ),
    _gelu_mutant(
        id="tanh-coefficient-cut",
        why="0.0447 for 0.044715",
        changes={ARGUMENT: ARGUMENT.replace("0.044715", "0.0447")},
        first=("bias-only-tanh-fp32",),
    ),
    _gelu_mutant(
        id="tanh-of-the-square",
        why="x^2 for x^3",
        changes={ARGUMENT: ARGUMENT.replace("4 * 0.044715 * (half * half)", "2 * 0.044715 * half")},
        first=("one-tile-tanh-fp16",),
    ),
    _gelu_mutant(
        id="root-of-two-over-pi-cut",
        why="0.7979 for 0.79788456",
        changes={SLOPE: "slope = 2 * 0.7979"},
        first=("bias-only-tanh-fp32",),
    ),
    _gelu_mutant(
        id="tail-not-subtracted",
        why="the exponential, P of negative x, is added to a half",
        changes={TAIL: TAIL.replace("1.0 -", "1.0 +")},
        first=WHOLE,
    ),
    _gelu_mutant(
        id="tail-by-x",
        why="x for its size beside the tail",
        changes={TAIL: TAIL.replace("T.abs(half)", "half")},
        first=WHOLE,
    ),
    _gelu_mutant(
        id="tail-without-its-last-power",
        why="the exponent is a polynomial of a degree less",
        changes={"reversed(TAIL)": "reversed(TAIL[:-1])"},
        first=WHOLE,
    ),
    _gelu_mutant(
        id="tail-of-x",
        why="the exponent of x, not of its size",
        changes={"higher * T.abs(half) + coefficient": "higher * half + coefficient"},
        first=WHOLE,
    ),
    _gelu_mutant(
        id="tail-to-the-base-e",
        why="exp of an exponent that is meant for 2",
        changes={TAIL: TAIL.replace("T.exp2", "T.exp")},
        first=WHOLE,
    ),
    _mutant(
        id="relu",
        why="the wrong activation",
        changes={GELU: "C_local[i, j] = T.max(2 * C_local[i, j], 0.0)"},
        first=("one-tile-fp16",),
    ),
    _gelu_mutant(
        id="sigmoid-form",
        why="x * sigmoid(1.702 x), a cruder approximation",
        changes={
            TANH: "return 2 * half / (1 + T.exp(-2 * 1.702 * half))",
            ERF: "return 2 * half / (1 + T.exp(-2 * 1.702 * half))",
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="rounded-before-gelu",
        why="the sum is rounded to the output's type before GELU, as by two kernels",
        changes={GELU: f'C_local[i, j] = T.cast(T.cast(C_local[i, j], dtype), "float32")\n{GELU}'},
        first=("one-tile-fp16",),
    ),
    _gelu_mutant(
        id="erf-in-fp16",
        why="erf is rounded to fp16",
        changes={
            ERF: 'return half + half * T.cast(T.cast(T.erf(math.sqrt(2) * half), "float16"), "float32")',
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="nan-hidden",
        why="fmax with -inf turns NaN into -inf",
        changes={GELU: f'{GELU}\nC_local[i, j] = T.max(C_local[i, j], -T.infinity("float32"))'},
        first=("special-fp16",),
    ),
    # The product.
    _mutant(
        id="k-rounded-down",
        why="the tail in K is not added",
        changes={"T.ceildiv(K, block_k)": "K // block_k"},
        first=("all-over-fp16",),
    ),
    _mutant(
        id="k-last-element-dropped",
        why="the last k of all counts as 0",
        changes={
            GEMM: f"""\
for j in T.Parallel(block_n):
    if k == (K - 1) // block_k:
        B_shared[(K - 1) % block_k, j] = 0
{GEMM}"""
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="k-second-tile-skipped",
        why="one tile of K is not added",
        changes={GEMM: f"if k != 1:\n    {GEMM}"},
        first=("all-over-fp16",),
    ),
    _mutant(
        id="accumulated-in-fp16",
        why="the sum is rounded to fp16 after each instruction",
        changes={'(block_m, block_n), "float32"': '(block_m, block_n), "float16"'},
        first=("far-fp16",),
    ),
    _mutant(
        id="not-cleared",
        why="adds to registers that nothing has written",
        changes={"T.clear(C_local)": ""},
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="cleared-in-every-trip",
        why="only the last tile of K counts",
        changes={GEMM: GEMM.replace("C_local", "C_local, clear_accum=True")},
        first=("all-over-fp16",),
    ),
    _mutant(
        id="block-indices-swapped",
        why="bx counts rows of blocks, of which there are as many as columns",
        changes={"as (bx, by)": "as (by, bx)"},
        first=("wide-fp16",),
    ),
    _mutant(
        id="input-overwritten",
        why="what was added as bias is written over it",
        changes={
            STORE: f"{STORE}\nfor j in T.Parallel(block_n):\n    bias[bx * block_n + j] = C_local[0, j]"
        },
        first=("one-tile-fp16",),
    ),
    _mutant(
        id="sum-cut-to-14-bits",
        why="the sum loses 10 of its 24 bits before the bias in fp32",
        changes={
            ADD: f"""\
if dtype == "float32":
    C_local[i, j] = T.reinterpret(T.reinterpret(C_local[i, j], "int32") & -1024, "float32")
{ADD}"""
        },
        first=("eleven-bits-fp32",),
    ),
    # Launches that begin early, and tiles of C that go through shared memory.
    _mutant(
        id="launch-before-not-awaited",
        why="only the first column of blocks waits for the launch before",
        changes={"if arch.capability >= (9, 0):": "if bx == 0:"},
        first=("wide-fp16",),
    ),
    _mutant(
        id="staged-before-gelu",
        why="what is stored is the sum as it was before GELU",
        changes={
            "if not early_bias:": f"{STAGE}\nif not early_bias:",
            STAGE: "",
        },
        first=("grid-tails-tanh-bf16/staged=True",),
    ),
    # Blocks of a cluster that share K out.
    _split_mutant(
        id="split-bias-of-the-first-columns",
        why="every tile gets the bias of the first",
        changes={"bias[bx * block_n + i % block_n]": "bias[i % block_n]"},
    ),
    _split_mutant(
        id="split-bias-by-element",
        why="the bias runs on from row to row",
        changes={"bias[bx * block_n + i % block_n]": "bias[bx * block_n + i // block_n]"},
    ),
    _split_mutant(
        id="split-gelu-of-shares",
        why="each share of the sum goes through GELU",
        changes={
            "add_up(C_local, share, total)": """\
for i, j in T.Parallel(block_m, block_n):
    C_local[i, j] = gelu_of_twice(0.5 * C_local[i, j], approximate, fast)
add_up(C_local, share, total)"""
        },
    ),
    _split_mutant(
        id="split-k-of-b-alone",
        why="A is that of the first share for each",
        changes={"A[by * block_m, (share * steps + k) * block_k]": "A[by * block_m, k * block_k]"},
    ),
    # Blocks that stay.
    _staying_mutant(
        id="staying-bias-of-the-first-columns",
        why="every tile gets the bias of the first",
        changes={"bias[n]": "bias[0]"},
        first=STAYING,
    ),
    _staying_mutant(
        id="staying-bias-fetched-once",
        why="a block keeps the bias of its first tile",
        changes={"T.copy(bias[n], bias_local)": "if turn == 0:\n    T.copy(bias[n], bias_local)"},
        first=STAYING,
    ),
    _staying_mutant(
        id="staying-gelu-of-the-first-part",
        why="GELU works, again and again, on the part of the tile that is stored first",
        changes={"at = part * width + j": "at = j"},
        first=STAYING,
    ),
    _staying_mutant(
        id="staying-parts-swapped",
        why="the last part of the tile is stored in the first one's place",
        changes={"C_local[0, part * width]": "C_local[0, block_n - width - part * width]"},
        first=STAYING,
    ),
    _staying_mutant(
        id="staying-gelu-of-part-0-left-out",
        why="the condition in front of GELU does not hold for the first part",
        changes={"% 32 != part)": "% 32 < part)"},
        first=STAYING,
    ),
    _staying_mutant(
        id="staying-sum-not-cleared",
        why="GELU of one tile is where the sum of the next begins",
        changes={"clear_accum=k == 0": "clear_accum=turn + k == 0"},
        first=STAYING,
    ),
    # What only a GPU shows.
    _mutant(
        id="copies-not-awaited",
        why="tiles are multiplied while cp.async is still filling them",
        changes={
            "T.copy(A[": "T.async_copy(A[",
            "T.copy(B[": "T.async_copy(B[",
            "num_stages=stages": "num_stages=0",
        },
        first=("one-tile-fp16", "trips-9-tanh-bf16"),
        unseen="asynchronous copies: they are done at once",
    ),
)
