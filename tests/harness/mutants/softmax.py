"""Wrong softmaxes: of the form that holds a row in registers (`one_pass`), and of the one that reads it twice
(`online`).
"""

from functools import partial

from tests.harness.mutants.engine import Mutant

_one_pass = partial(Mutant, kernel="softmax", within="one_pass")
_online = partial(Mutant, kernel="softmax", within="online")

# One pass.
LOAD = "T.copy(X[block * rows, 0], loaded)"
STORE = "T.copy(tile, Y[block * rows, 0])"
MASK = 'tile[i, j] = T.if_then_else(j < N, value, -T.infinity("float32"))'
MAX = "T.reduce_max(tile, top, dim=1)"
WEIGH = "tile[i, j] = T.exp2((tile[i, j] - top[i]) * LOG2E)"
SUM = "T.reduce_sum(tile, total, dim=1)"
DIVIDE = "tile[i, j] /= total[i]"

# Online.
LOAD_FIRST = "T.copy(X[block * rows, c * chunk], loaded)"
LOAD_SECOND = "T.copy(X[block * rows, column], loaded)"
STORE_CHUNK = "T.copy(tile, Y[block * rows, column])"
KEEP_TOP = "T.copy(top, old_top)"
RAISE_TOP = "T.reduce_max(tile, top, dim=1, clear=False)"
RESCALE = "total[i] = total[i] * T.exp2((old_top[i] - top[i]) * LOG2E) + chunk_total[i]"
WRITE = 'tile[i, j] = T.exp2((T.cast(loaded[i, j], "float32") - top[i]) * LOG2E) / total[i]'
LOW = 'T.fill(top, T.min_value("float32"))'

MUTANTS = (
    _one_pass(
        id="tail-not-masked",
        why="the zeros past the end weigh exp(0 - max) each",
        changes={"j < N": "j < chunk"},
        first=("n-127-fp32",),
    ),
    _one_pass(
        id="tail-mask-one-late",
        why="one zero past the end weighs",
        changes={"j < N": "j <= N"},
        first=("last-fp32",),
    ),
    _one_pass(
        id="tail-mask-one-early",
        why="the last column weighs nothing",
        changes={"j < N": "j < N - 1"},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="masked-with-zero",
        why="masked columns weigh exp(0 - max)",
        changes={'-T.infinity("float32")': "0.0"},
        first=("last-fp32",),
    ),
    _one_pass(
        id="masked-with-a-finite-number",
        why="in a row of -inf, masked columns are the largest",
        changes={'-T.infinity("float32")': 'T.min_value("float32")'},
        first=("special-fp32",),
    ),
    _one_pass(
        id="masked-after-the-maximum",
        why="the zeros past the end still raise the maximum",
        changes={
            MASK: "tile[i, j] = value",
            WEIGH: f"{WEIGH}\ntile[i, j] = T.if_then_else(j < N, tile[i, j], 0.0)",
        },
        first=("last-fp32",),
    ),
    _one_pass(
        id="summed-before-masked",
        why="the sum holds the weights past the end, the store does not",
        changes={
            "j < N": "j < chunk",
            DIVIDE: f"{DIVIDE}\ntile[i, j] = T.if_then_else(j < N, tile[i, j], 0.0)",
        },
        first=("n-127-fp32",),
    ),
    _one_pass(
        id="maximum-not-subtracted",
        why="exp(x) overflows, or all of a row flushes to 0",
        changes={WEIGH: "tile[i, j] = T.exp2(tile[i, j] * LOG2E)"},
        first=("ten-thousand-fp32",),
    ),
    _one_pass(
        id="maximum-of-the-first-row",
        why="rows are measured against the maximum of another",
        changes={WEIGH: WEIGH.replace("top[i]", "top[0]")},
        first=("special-fp32",),
    ),
    _one_pass(
        id="maximum-of-magnitudes",
        why="rows far below zero flush to 0",
        changes={MAX: "T.reduce_absmax(tile, top, dim=1)"},
        first=("special-fp32",),
    ),
    _one_pass(
        id="minimum",
        why="measured against the smallest value",
        changes={MAX: "T.reduce_min(tile, top, dim=1)"},
        first=("n-1-fp32",),
    ),
    _one_pass(
        id="base-two",
        why="2^x for exp(x)",
        changes={WEIGH: WEIGH.replace(" * LOG2E", "")},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="scaled-for-the-wrong-exponential",
        why="exp of what is scaled for exp2",
        changes={WEIGH: WEIGH.replace("T.exp2", "T.exp")},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="log2e-cut",
        why="1.4427 for log2(e)",
        changes={WEIGH: WEIGH.replace("LOG2E", "1.4427")},
        first=("rising-fp32",),
    ),
    _one_pass(
        id="scaled-before-subtracted",
        why="x * log2(e) and max * log2(e) are rounded each, and cancel",
        changes={WEIGH: "tile[i, j] = T.exp2(tile[i, j] * LOG2E - top[i] * LOG2E)"},
        first=("ten-thousand-fp32",),
    ),
    _one_pass(
        id="maximum-not-scaled",
        why="only one of the two is brought to base 2",
        changes={WEIGH: "tile[i, j] = T.exp2(tile[i, j] * LOG2E - top[i])"},
        first=("ten-thousand-fp32",),
    ),
    _one_pass(
        id="not-normalised",
        why="weights are not divided by their sum",
        changes={DIVIDE: "tile[i, j] /= 1.0"},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="sum-of-the-first-row",
        why="rows are divided by the sum of another",
        changes={DIVIDE: "tile[i, j] /= total[0]"},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="sum-in-the-tensor-type",
        why="the sum is rounded to 16 bits",
        changes={
            'top = T.alloc_fragment((rows,), "float32")\ntotal = T.alloc_fragment((rows,), "float32")': (
                'top = T.alloc_fragment((rows,), "float32")\ntotal = T.alloc_fragment((rows,), dtype)'
            )
        },
        first=("n-1000-fp16",),
    ),
    _one_pass(
        id="weights-in-the-tensor-type",
        why="weights are rounded to 16 bits before they are divided",
        changes={
            WEIGH: 'tile[i, j] = T.cast(T.cast(T.exp2((tile[i, j] - top[i]) * LOG2E), dtype), "float32")'
        },
        first=("n-1000-fp16",),
    ),
    _one_pass(
        id="differences-in-the-tensor-type",
        why="what is left after the maximum is rounded to 16 bits",
        changes={WEIGH: 'tile[i, j] = T.exp2(T.cast(T.cast(tile[i, j] - top[i], dtype), "float32") * LOG2E)'},
        first=("n-1000-fp16",),
    ),
    _one_pass(
        id="exponential-in-fp16",
        why="exp2 is that of half precision",
        changes={
            WEIGH: """\
exponent = T.cast((tile[i, j] - top[i]) * LOG2E, "float16")
tile[i, j] = T.cast(T.exp2(exponent), "float32")"""
        },
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="weights-below-2e-14-flushed",
        why="weights that fp16 holds as subnormal become 0",
        changes={
            STORE: f"""\
for i, j in T.Parallel(rows, chunk):
    tile[i, j] = T.if_then_else(tile[i, j] < 2**-14, 0.0, tile[i, j])
{STORE}"""
        },
        first=("n-32768-fp16",),
    ),
    _one_pass(
        id="nan-hidden",
        why="fmax with 0 takes NaN out of the weights",
        changes={WEIGH: "tile[i, j] = T.max(T.exp2((tile[i, j] - top[i]) * LOG2E), 0.0)"},
        first=("special-fp32",),
    ),
    _one_pass(
        id="empty-sum-guarded",
        why="a row of -inf gives zeros, where softmax has no value",
        changes={
            WEIGH: """\
weight = T.exp2((tile[i, j] - top[i]) * LOG2E)
tile[i, j] = T.if_then_else(top[i] == -T.infinity("float32"), 0.0, weight)""",
            DIVIDE: "tile[i, j] /= T.max(total[i], 1e-30)",
        },
        first=("special-fp32",),
    ),
    _one_pass(
        id="grid-rounded-down",
        why="no block for the last rows",
        changes={"T.ceildiv(M, rows)": "M // rows"},
        first=("n-31-fp16",),
    ),
    _one_pass(
        id="rows-one-down",
        why="the row below is read",
        changes={LOAD: "T.copy(X[block * rows + 1, 0], loaded)"},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="columns-one-on",
        why="rows are read from their second column on",
        changes={LOAD: "T.copy(X[block * rows, 1], loaded)"},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="blocks-overlap",
        why="blocks start one row too early",
        changes={STORE: "T.copy(tile, Y[block * (rows - 1), 0])"},
        first=("n-31-fp16",),
    ),
    _one_pass(
        id="in-place",
        why="weights replace X as well",
        changes={STORE: f"{STORE}\nT.copy(tile, X[block * rows, 0])"},
        first=("n-128-fp32",),
    ),
    _one_pass(
        id="first-row-of-a-block-only",
        why="the other rows are not stored",
        changes={
            STORE: "for j in T.Parallel(chunk):\n    Y[block * rows, j] = tile[0, j]",
        },
        first=("n-31-fp16",),
    ),
    _online(
        id="online-not-rescaled",
        why="the sum does not follow the maximum",
        changes={RESCALE: "total[i] = total[i] + chunk_total[i]"},
        first=("rising-online-fp32",),
    ),
    _online(
        id="online-rescaled-upwards",
        why="the sign of the exponent is wrong",
        changes={RESCALE: RESCALE.replace("old_top[i] - top[i]", "top[i] - old_top[i]")},
        first=("rising-online-fp32",),
    ),
    _online(
        id="online-rescaled-in-base-two",
        why="the rescaling takes 2^x for exp(x)",
        changes={RESCALE: RESCALE.replace(" * LOG2E", "")},
        first=("rising-online-fp32",),
    ),
    _online(
        id="online-chunk-rescaled-too",
        why="the new chunk's sum is rescaled with the old one",
        changes={RESCALE: "total[i] = (total[i] + chunk_total[i]) * T.exp2((old_top[i] - top[i]) * LOG2E)"},
        first=("rising-online-fp32",),
    ),
    _online(
        id="online-old-maximum-kept-too-late",
        why="the old maximum is the new one: nothing is rescaled",
        changes={KEEP_TOP: RAISE_TOP, RAISE_TOP: KEEP_TOP},
        first=("rising-online-fp32",),
    ),
    _online(
        id="online-maximum-forgotten",
        why="each chunk has a maximum of its own: falling values overflow",
        changes={RAISE_TOP: "T.reduce_max(tile, top, dim=1)"},
        first=("special-online-fp32",),
    ),
    _online(
        id="online-maximum-from-zero",
        why="rows far below zero flush to 0",
        changes={LOW: "T.clear(top)"},
        first=("last-online-fp32",),
    ),
    _online(
        id="online-maximum-from-minus-infinity",
        why="a first chunk of -inf gives (-inf) - (-inf)",
        changes={LOW: 'T.fill(top, -T.infinity("float32"))'},
        first=("late-values-online-fp32",),
    ),
    _online(
        id="online-sum-not-cleared",
        why="adds to registers that nothing has written",
        changes={"T.clear(total)": ""},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-sum-from-one",
        why="the sum starts at 1",
        changes={"T.clear(total)": "T.fill(total, 1.0)"},
        first=("special-online-fp32",),
    ),
    _online(
        id="online-last-chunk-not-summed",
        why="one chunk too few in the first pass",
        changes={
            f"for c in T.serial(chunks):\n    {LOAD_FIRST}": (
                f"for c in T.serial(chunks - 1):\n    {LOAD_FIRST}"
            )
        },
        first=("n-49152-fp16",),
    ),
    _online(
        id="online-chunks-rounded-down",
        why="the tail is neither summed nor written",
        changes={"math.ceil(N / chunk)": "N // chunk"},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-tail-not-masked",
        why="the zeros past the end weigh",
        changes={"c * chunk + j < N": "j < chunk"},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-tail-mask-one-late",
        why="one zero past the end weighs",
        changes={"c * chunk + j < N": "c * chunk + j <= N"},
        first=("last-online-fp32",),
    ),
    _online(
        id="online-tail-mask-one-early",
        why="the last column weighs nothing",
        changes={"c * chunk + j < N": "c * chunk + j < N - 1"},
        first=("last-online-fp32",),
    ),
    _online(
        id="online-second-pass-one-chunk-off",
        why="the last chunk is not written, and one past the end is",
        changes={"(chunks - 1 - c) * chunk": "(chunks - c) * chunk"},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-second-pass-stale",
        why="what the second pass writes is the last chunk that the first one loaded",
        changes={LOAD_SECOND: ""},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-sum-in-the-tensor-type",
        why="the sum is kept in 16 bits",
        changes={'"float32")  # the sum so far': "dtype)  # the sum so far"},
        first=("n-49152-fp16",),
    ),
    _online(
        id="online-second-pass-reads-the-output",
        why="the second pass reads Y, which nothing has written",
        changes={LOAD_SECOND: "T.copy(Y[block * rows, column], loaded)"},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-second-pass-forwards-from-backwards",
        why="chunks are read from one end and written from the other",
        changes={LOAD_SECOND: LOAD_FIRST},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-last-element-not-written",
        why="the second pass stops one column early",
        changes={
            STORE_CHUNK: """\
for i, j in T.Parallel(rows, chunk):
    if column + j < N - 1:
        Y[block * rows + i, column + j] = tile[i, j]"""
        },
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-not-normalised",
        why="weights are not divided by their sum",
        changes={WRITE: WRITE.replace(" / total[i]", "")},
        first=("n-32769-fp32",),
    ),
    _online(
        id="online-scaled-before-subtracted",
        why="x * log2(e) and max * log2(e) are rounded each, and cancel",
        changes={
            WRITE: 'tile[i, j] = T.exp2(T.cast(loaded[i, j], "float32") * LOG2E - top[i] * LOG2E) / total[i]'
        },
        first=("ten-thousand-online-fp32",),
    ),
    _one_pass(
        id="maximum-starts-at-fp16-lowest",
        why="a row that lies below -65504 has nothing to divide",
        changes={
            "T.reduce_max(tile, top, dim=1)": (
                "T.fill(top, -65504.0)\nT.reduce_max(tile, top, dim=1, clear=False)"
            )
        },
        first=("far-below-fp32",),
    ),
    _online(
        id="online-maximum-starts-at-1e4",
        why="a row that lies below -1e4 has nothing to divide",
        changes={'T.fill(top, T.min_value("float32"))': "T.fill(top, -1e4)"},
        first=("far-below-online-fp16",),
    ),
    _online(
        id="online-maximum-starts-at-1e30",
        why="a row that lies below -1e30 has nothing to divide",
        changes={'T.fill(top, T.min_value("float32"))': "T.fill(top, -1e30)"},
        first=("far-below-online-bf16",),
    ),
    _online(
        id="online-rescaled-by-2e-24-at-least",
        why="a sum that hardly counts any more is not scaled down as far",
        changes={
            "T.exp2((old_top[i] - top[i]) * LOG2E)": "T.exp2(T.max((old_top[i] - top[i]) * LOG2E, -24.0))"
        },
        first=("tower-online-fp32",),
    ),
    # What only a GPU shows.
    _one_pass(
        id="exchange-without-barrier",
        why="rows are turned round through shared memory, and no thread waits for the others",
        changes={
            LOAD: "staged = T.alloc_shared((rows, chunk), dtype)\nT.copy(X[block * rows, 0], staged)",
            "loaded[i, j]": "staged[i, chunk - 1 - j]",
            "j < N": "chunk - 1 - j < N",
            STORE: """\
for i, j in T.Parallel(rows, chunk):
    Y[block * rows + i, chunk - 1 - j] = tile[i, j]""",
        },
        options={"tl.disable_thread_storage_sync": True},
        first=("n-127-fp32", "n-1025-fp32", "n-8191-fp32"),
        unseen="barriers between threads",
    ),
)
