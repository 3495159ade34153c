"""Wrong softmaxes, by where: in what a thread does with its values, from chunk to chunk, in the exchange
between threads, in what one pass writes, and the second of two.
"""

from functools import partial

from tests.harness.mutants.engine import Mutant

_softmax = partial(Mutant, kernel="softmax")

# A thread.
LOAD = 'value = T.cast(X[first + w // warps, start + column(i, w, t, v)], "float32")'
INSIDE = "inside = start + column(i, w, t, v) < N"
MASK = 'tile[i, w, t, v] = T.if_then_else(inside, value, -T.infinity("float32"))'
LOW = 'T.fill(top, T.min_value("float32"))'
MAX = "T.reduce_max(tile, folded, dim=0)"
KEEP_TOP = "T.copy(top, old_top)"
RAISE_TOP = "T.reduce_max(folded, top, dim=2, clear=False)"
WEIGH = "tile[i, w, t, v] = T.exp2((tile[i, w, t, v] - top[w, t]) * LOG2E)"
RESCALE = "total[w, t] *= T.exp2((old_top[w, t] - top[w, t]) * LOG2E)"
SUM = "T.reduce_sum(folded, total, dim=2, clear=False)"

# Threads of a warp, and warps of a row, in one block or in several.
WARP_TOP = "T.reduce_max(top, warp_top, dim=1)"
WARP_RESCALE = "total[w, t] *= T.exp2((top[w, t] - warp_top[w]) * LOG2E)"
OWN_TOP = "tops[r, w] = notes[0, 0, r * warps + w]"
OWN_TOTAL = "totals[r, w] = notes[0, 1, r * warps + w]"
OWN_WEIGHT = "totals[r, w] *= T.exp2((notes[0, 0, r * warps + w] - row_top[r]) * LOG2E)"
ROW_TOP = "T.reduce_max(tops, row_top, dim=1)"
ROW_WEIGHT = "weight = T.exp2((notes[p, 0, r * warps + w] - row_top[r]) * LOG2E)"
NOTED_TOTAL = "totals[r, w] += notes[p, 1, r * warps + w] * weight"
SEND = "T.copy_cluster(own_notes, notes[part, 0, 0], dst_block=p)"

# What is written out of registers.
FACTOR = "total[w, t] = T.exp2((top[w, t] - row_top[w // warps]) * LOG2E) / row_total[w // warps]"
STORE = "Y[first + w // warps, last + column(i, w, t, v)] = tile[i, w, t, v] * total[w, t]"

# Several chunks.
CHUNKS = "for c in T.serial(looks):"
START = "return ((part * share // chunk + 1 if share else part) + c) % chunks * chunk"
WAIT = "waiting[c, i, w, t, v] = T.cast(tile[i, w, t, v], dtype)"
START_AGAIN = "start = part * piece if share else last - (p + 1) * piece"
WEIGH_AGAIN = "weight = T.exp2((value - row_top[w // warps]) * LOG2E)"
STORE_AGAIN = "Y[first + w // warps, start + column(i, w, t, v)] = weight / row_total[w // warps]"

FIRST_LOAD, SECOND_LOAD = f"{LOAD}\n{INSIDE}", f"else:\n    {LOAD}"

# A block for each row, which reads chunks again or has them wait; blocks that share a row.
ALONE, STAGED = "chunk=16384,cluster=1", "chunk=16384,cluster=1,staged=True"
SHARED = "chunk=16384,cluster=1,share=4096"

MUTANTS = (
    # A thread's values.
    _softmax(
        id="tail-not-masked",
        why="the zeros past the end weigh exp(0 - max) each",
        changes={INSIDE: "inside = column(i, w, t, v) < chunk"},
        first=("n-127-fp32",),
    ),
    _softmax(
        id="tail-mask-one-late",
        why="one zero past the end weighs",
        changes={INSIDE: INSIDE.replace("<", "<=")},
        first=("last-fp32",),
    ),
    _softmax(
        id="tail-mask-one-early",
        why="the last column weighs nothing",
        changes={INSIDE: f"{INSIDE} - 1"},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="tail-mask-of-the-first-chunk",
        why="the zeros past the end of later chunks weigh",
        changes={INSIDE: INSIDE.replace("start + ", "")},
        first=("n-32769-fp32",),
    ),
    _softmax(
        id="masked-with-zero",
        why="masked columns weigh exp(0 - max)",
        changes={'-T.infinity("float32")': "0.0"},
        first=("last-fp32",),
    ),
    _softmax(
        id="masked-with-a-finite-number",
        why="in a row of -inf, masked columns are the largest",
        changes={'-T.infinity("float32")': 'T.min_value("float32")'},
        first=("special-fp32",),
    ),
    _softmax(
        id="masked-after-the-maximum",
        why="the zeros past the end still raise the maximum",
        changes={
            MASK: "tile[i, w, t, v] = value",
            WEIGH: f"{WEIGH}\nif start + column(i, w, t, v) >= N:\n    tile[i, w, t, v] = 0.0",
        },
        first=("last-fp32",),
    ),
    _softmax(
        id="maximum-not-subtracted",
        why="exp(x) overflows, or all of a row flushes to 0",
        changes={WEIGH: "tile[i, w, t, v] = T.exp2(tile[i, w, t, v] * LOG2E)"},
        first=("ten-thousand-fp32",),
    ),
    _softmax(
        id="maximum-of-another-row",
        why="values are measured by the maximum of a thread of the block's first row",
        changes={WEIGH: WEIGH.replace("top[w, t]", "top[0, t]")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="maximum-of-magnitudes",
        why="rows far below zero flush to 0",
        changes={MAX: "T.reduce_absmax(tile, folded, dim=0)"},
        first=("special-fp32",),
    ),
    _softmax(
        id="minimum",
        why="measured by the smallest value",
        changes={RAISE_TOP: RAISE_TOP.replace("max", "min")},
        first=("n-1-fp32",),
    ),
    _softmax(
        id="base-two",
        why="2^x for exp(x)",
        changes={WEIGH: WEIGH.replace(" * LOG2E", "")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="scaled-for-the-wrong-exponential",
        why="exp of what is scaled for exp2",
        changes={WEIGH: WEIGH.replace("T.exp2", "T.exp")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="log2e-cut",
        why="1.4427 for log2(e)",
        changes={WEIGH: WEIGH.replace("LOG2E", "1.4427")},
        first=("rising-fp32",),
    ),
    _softmax(
        id="scaled-before-subtracted",
        why="x * log2(e) and max * log2(e) are rounded each, and cancel",
        changes={WEIGH: "tile[i, w, t, v] = T.exp2(tile[i, w, t, v] * LOG2E - top[w, t] * LOG2E)"},
        first=("ten-thousand-fp32",),
    ),
    _softmax(
        id="maximum-not-scaled",
        why="only one of the two is brought to base 2",
        changes={WEIGH: "tile[i, w, t, v] = T.exp2(tile[i, w, t, v] * LOG2E - top[w, t])"},
        first=("ten-thousand-fp32",),
    ),
    _softmax(
        id="sum-in-the-tensor-type",
        why="a thread's sum, and its factor, are rounded to 16 bits",
        changes={'"float32")  # so far, relative': "dtype)  # so far, relative"},
        first=("n-1000-fp16",),
    ),
    _softmax(
        id="weights-in-the-tensor-type",
        why="weights are rounded to 16 bits before they are scaled",
        changes={
            WEIGH: """\
weight = T.exp2((tile[i, w, t, v] - top[w, t]) * LOG2E)
tile[i, w, t, v] = T.cast(T.cast(weight, dtype), "float32")"""
        },
        first=("n-1000-fp16",),
    ),
    _softmax(
        id="differences-in-the-tensor-type",
        why="what is left after the maximum is rounded to 16 bits",
        changes={
            WEIGH: """\
difference = T.cast(tile[i, w, t, v] - top[w, t], dtype)
tile[i, w, t, v] = T.exp2(T.cast(difference, "float32") * LOG2E)"""
        },
        first=("n-1000-fp16",),
    ),
    _softmax(
        id="exponential-in-fp16",
        why="exp2 is that of half precision",
        changes={
            WEIGH: """\
exponent = T.cast((tile[i, w, t, v] - top[w, t]) * LOG2E, "float16")
tile[i, w, t, v] = T.cast(T.exp2(exponent), "float32")"""
        },
        first=("n-128-fp32",),
    ),
    _softmax(
        id="nan-hidden",
        why="fmax with 0 takes NaN out of the weights",
        changes={WEIGH: "tile[i, w, t, v] = T.max(T.exp2((tile[i, w, t, v] - top[w, t]) * LOG2E), 0.0)"},
        first=("special-fp32",),
    ),
    _softmax(
        id="maximum-from-zero",
        why="rows far below zero flush to 0",
        changes={LOW: "T.clear(top)"},
        first=("last-fp32",),
    ),
    _softmax(
        id="maximum-from-minus-infinity",
        why="a thread that holds only -inf gets (-inf) - (-inf)",
        changes={LOW: 'T.fill(top, -T.infinity("float32"))'},
        first=("late-values-fp16",),
    ),
    _softmax(
        id="maximum-starts-at-fp16-lowest",
        why="a row that lies below -65504 has nothing to divide",
        changes={LOW: "T.fill(top, -65504.0)"},
        first=("far-below-fp32",),
    ),
    _softmax(
        id="maximum-starts-at-1e4",
        why="a row that lies below -1e4 has nothing to divide",
        changes={LOW: "T.fill(top, -1e4)"},
        first=("far-below-online-fp16",),
    ),
    _softmax(
        id="maximum-starts-at-1e30",
        why="a row that lies below -1e30 has nothing to divide",
        changes={LOW: "T.fill(top, -1e30)"},
        first=("far-below-online-bf16",),
    ),
    _softmax(
        id="sum-not-cleared",
        why="adds to registers that nothing has written",
        changes={"T.clear(total)": ""},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="sum-from-one",
        why="the sum starts at 1, which counts in a row of -inf",
        changes={"T.clear(total)": "T.fill(total, 1.0)"},
        first=("special-fp32",),
    ),
    # From chunk to chunk.
    _softmax(
        id="not-rescaled",
        why="the sum does not follow the maximum",
        changes={RESCALE: "total[w, t] *= 1.0"},
        first=("rising-chunks-fp32",),
    ),
    _softmax(
        id="rescaled-upwards",
        why="the sign of the exponent is wrong",
        changes={RESCALE: RESCALE.replace("old_top[w, t] - top[w, t]", "top[w, t] - old_top[w, t]")},
        first=("rising-chunks-fp32",),
    ),
    _softmax(
        id="rescaled-in-base-two",
        why="the rescaling takes 2^x for exp(x)",
        changes={RESCALE: RESCALE.replace(" * LOG2E", "")},
        first=(f"n-32769-fp32/{ALONE}",),
    ),
    _softmax(
        id="chunk-rescaled-too",
        why="the new chunk's sum is rescaled with the old one",
        changes={
            RESCALE: "total[w, t] *= 1.0",
            SUM: f"{SUM}\nfor w, t in T.Parallel(rows * warps, lanes):\n    {RESCALE}",
        },
        first=("rising-chunks-fp32",),
    ),
    _softmax(
        id="old-maximum-kept-too-late",
        why="the old maximum is the new one: nothing is rescaled",
        changes={KEEP_TOP: "", RAISE_TOP: f"{RAISE_TOP}\n{KEEP_TOP}"},
        first=("rising-chunks-fp32",),
    ),
    _softmax(
        id="maximum-forgotten",
        why="each chunk has a maximum of its own, -inf where it holds nothing else",
        changes={RAISE_TOP: "T.reduce_max(folded, top, dim=2)"},
        first=("n-31-fp16",),
    ),
    _softmax(
        id="rescaled-by-2e-16-at-least",
        why="a sum that hardly counts any more is not scaled down as far",
        changes={RESCALE: "total[w, t] *= T.exp2(T.max((old_top[w, t] - top[w, t]) * LOG2E, -16.0))"},
        first=(f"tower-online-fp32/{ALONE}",),
    ),
    _softmax(
        id="last-chunk-not-summed",
        why="one chunk too few in the first pass",
        changes={CHUNKS: "for c in T.serial(looks - 1):"},
        first=(f"n-49152-fp16/{SHARED}",),
    ),
    _softmax(
        id="chunks-rounded-down",
        why="the tail is neither summed nor written",
        changes={"else math.ceil(N / chunk)": "else N // chunk"},
        first=(f"n-32769-fp32/{ALONE}",),
    ),
    _softmax(
        id="sum-over-the-own-chunk",
        why="a block sums what it writes, and not the rest of the row",
        changes={
            CHUNKS: "for c in T.serial(1):",
            START: "return part * share // chunk * chunk",
        },
        first=(f"n-49152-fp16/{SHARED}",),
    ),
    _softmax(
        id="sum-not-round-to-the-start",
        why="a block sums from its share on, and not what lies before",
        changes={START: START.replace(" % chunks", "")},
        first=(f"n-49152-fp16/{SHARED}",),
    ),
    _softmax(
        id="first-chunk-summed-twice",
        why="each block goes round to where it began, and a chunk too far",
        changes={CHUNKS: "for c in T.serial(looks + 1):"},
        first=(f"n-49152-fp16/{SHARED}",),
    ),
    # Between threads, and between warps.
    _softmax(
        id="exchanged-before-rescaled",
        why="sums relative to different maxima are added",
        changes={WARP_RESCALE: "total[w, t] *= 1.0"},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="exchanged-upwards",
        why="sums are scaled up where they should be scaled down",
        changes={WARP_RESCALE: WARP_RESCALE.replace("top[w, t] - warp_top[w]", "warp_top[w] - top[w, t]")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="exchanged-by-2e-24-at-least",
        why="sums that hardly count any more are not scaled down as far",
        changes={ROW_WEIGHT: ROW_WEIGHT.replace("exp2(", "exp2(T.max(").replace("LOG2E)", "LOG2E, -24.0))")},
        first=("tower-online-fp32",),
    ),
    _softmax(
        id="last-lane-left-out",
        why="what the last lane of a warp has summed is lost",
        changes={WARP_RESCALE: f"{WARP_RESCALE}\nif t == lanes - 1:\n    total[w, t] = 0.0"},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="last-warp-left-out",
        why="the sum of a row's last warp is lost",
        changes={OWN_TOTAL: "totals[r, w] = T.if_then_else(w < warps - 1, notes[0, 1, r * warps + w], 0.0)"},
        first=("n-8191-fp32",),
    ),
    _softmax(
        id="first-warp-for-all",
        why="the sum of a row's first warp stands for those of the others",
        changes={OWN_TOTAL: OWN_TOTAL.replace(" + w", "")},
        first=("n-8191-fp32",),
    ),
    _softmax(
        id="warps-of-the-first-row",
        why="rows of a block take the sums of the first one's warps",
        changes={OWN_TOTAL: OWN_TOTAL.replace("r * warps + ", "")},
        first=("n-1024-fp16",),
    ),
    _softmax(
        id="exchanged-minimum",
        why="beside the maximum of a thread that holds nothing, all others overflow",
        changes={WARP_TOP: WARP_TOP.replace("max", "min")},
        first=("n-31-fp16",),
    ),
    _softmax(
        id="exchanged-between-warps-before-rescaled",
        why="sums of warps relative to different maxima are added",
        changes={OWN_WEIGHT: "totals[r, w] *= 1.0"},
        first=("n-8191-fp32",),
    ),
    _softmax(
        id="maximum-of-the-last-warp",
        why="the maxima of the other warps are forgotten, and their weights overflow",
        changes={OWN_TOP: OWN_TOP.replace("+ w]", "+ warps - 1]")},
        first=("far-below-online-fp16",),
    ),
    # Between the blocks of a cluster.
    _softmax(
        id="touched-before-the-launch-before-has-ended",
        why="X may not be there yet: the launch that writes it is still at work",
        changes={"T.pdl_sync()  # the one before has ended, and what it wrote is there": ""},
        first=("n-32769-fp32", "n-1-fp32"),
    ),
    _softmax(
        id="sent-before-all-have-begun",
        why="there is no shared memory yet to write into",
        changes={
            "T.cluster_arrive_relaxed()  # this block has begun": "pass",
            "T.cluster_wait()  # all blocks have begun": "",
        },
        first=("n-32769-fp32",),
    ),
    _softmax(
        id="read-before-all-have-sent",
        why="what the others have not yet written is read",
        changes={"T.cluster_sync()": ""},
        first=("n-32769-fp32",),
    ),
    _softmax(
        id="sent-to-itself-only",
        why="the notes of the others were never written",
        changes={SEND: SEND.replace("dst_block=p", "dst_block=part")},
        first=("n-32769-fp32",),
    ),
    _softmax(
        id="sent-to-one-place",
        why="all blocks write where the first one's notes belong",
        changes={SEND: SEND.replace("notes[part,", "notes[0,")},
        first=("n-32769-fp32",),
    ),
    _softmax(
        id="last-block-left-out",
        why="the sum of a cluster's last block does not count",
        changes={NOTED_TOTAL: f"if p < T.max(1, cluster - 1):\n    {NOTED_TOTAL}"},
        first=("n-262144-fp32",),
    ),
    # What is written.
    _softmax(
        id="factor-forgotten",
        why="weights by a thread's maximum are taken for weights by the row's",
        changes={FACTOR: "total[w, t] = 1.0 / row_total[w // warps]"},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="factor-upwards",
        why="weights are scaled up to the row's maximum instead of down",
        changes={
            FACTOR: FACTOR.replace("top[w, t] - row_top[w // warps]", "row_top[w // warps] - top[w, t]")
        },
        first=("n-128-fp32",),
    ),
    _softmax(
        id="factor-of-the-first-row",
        why="weights are brought to the maximum of another row",
        changes={FACTOR: FACTOR.replace("row_top[w // warps]", "row_top[0]")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="not-normalised",
        why="weights are not divided by their sum",
        changes={FACTOR: FACTOR.replace(" / row_total[w // warps]", "")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="sum-of-the-first-row",
        why="rows are divided by the sum of another",
        changes={FACTOR: FACTOR.replace("row_total[w // warps]", "row_total[0]")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="empty-sum-guarded",
        why="a row of -inf gives zeros, where softmax has no value",
        changes={FACTOR: FACTOR.replace("row_total[w // warps]", "T.max(row_total[w // warps], 1e-30)")},
        first=("special-fp32",),
    ),
    _softmax(
        id="weights-below-2e-14-flushed",
        why="weights that fp16 holds as subnormal become 0",
        changes={
            STORE: """\
weight = tile[i, w, t, v] * total[w, t]
Y[first + w // warps, last + column(i, w, t, v)] = T.if_then_else(weight < 2**-14, 0.0, weight)"""
        },
        first=("n-32768-fp16",),
    ),
    _softmax(
        id="grid-rounded-down",
        why="no block for the last rows",
        changes={"T.ceildiv(M, rows)": "M // rows"},
        first=("n-31-fp16",),
    ),
    _softmax(
        id="rows-one-down",
        why="the row below is read",
        changes={FIRST_LOAD: FIRST_LOAD.replace("w // warps", "w // warps + 1")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="columns-one-on",
        why="rows are read from their second column on",
        changes={FIRST_LOAD: FIRST_LOAD.replace("i, w, t, v)]", "i, w, t, v) + 1]")},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="blocks-overlap",
        why="blocks start one row too early",
        changes={STORE: STORE.replace("first", "block * (rows - 1)")},
        first=("n-31-fp16",),
    ),
    _softmax(
        id="in-place",
        why="weights replace X as well",
        changes={STORE: f"{STORE}\nX[first + w // warps, last + column(i, w, t, v)] = tile[i, w, t, v]"},
        first=("n-128-fp32",),
    ),
    _softmax(
        id="first-row-of-a-block-only",
        why="the other rows are not stored",
        changes={STORE: f"if w // warps == 0:\n    {STORE}"},
        first=("n-31-fp16",),
    ),
    _softmax(
        id="summed-before-masked",
        why="the sum holds weights past the end, what is stored does not",
        changes={
            INSIDE: "inside = column(i, w, t, v) < chunk",
            STORE: f"if last + column(i, w, t, v) < N:\n    {STORE}",
        },
        first=("n-127-fp32",),
    ),
    _softmax(
        id="last-chunk-in-place-of-the-first",
        why="what is left in registers is written to the row's first columns",
        changes={STORE: STORE.replace("last + ", "")},
        first=("n-32780-bf16", "n-49152-fp16"),
    ),
    # What is looked at again.
    _softmax(
        id="second-pass-one-piece-off",
        why="a chunk is written a second time, and the first never",
        changes={START_AGAIN: START_AGAIN.replace("(p + 1)", "p")},
        first=(f"n-32769-fp32/{ALONE}",),
    ),
    _softmax(
        id="second-pass-one-column-off",
        why="blocks write from the second column of their share on, and one of the next",
        changes={START_AGAIN: START_AGAIN.replace("part * piece", "part * piece + 1")},
        first=(f"n-32769-fp32/{SHARED}",),
    ),
    _softmax(
        id="shares-overlap",
        why="shares begin where the one before has not ended",
        changes={START_AGAIN: START_AGAIN.replace("part * piece", "part * (piece - 1)")},
        first=(f"n-32769-fp32/{SHARED}",),
    ),
    _softmax(
        id="shares-rounded-down",
        why="nobody writes the last columns",
        changes={"math.ceil(N / share)": "N // share"},
        first=(f"n-32769-fp32/{SHARED}",),
    ),
    _softmax(
        id="shares-of-one-block",
        why="what the first block of a row writes, all do",
        changes={START_AGAIN: START_AGAIN.replace("part * piece", "0")},
        first=(f"n-32769-fp32/{SHARED}",),
    ),
    _softmax(
        id="waits-in-the-wrong-order",
        why="chunks that wait are taken for each other",
        changes={"waiting[pieces - 1 - p, i, w, t, v]": "waiting[p, i, w, t, v]"},
        first=(f"n-49152-fp16/{STAGED}",),
    ),
    _softmax(
        id="waits-as-a-weight",
        why="what waits is no value of X any more: it is raised twice",
        changes={
            "if staged and c < chunks - 1:": "if False:",
            RESCALE: f"""\
{RESCALE}
if staged and c < chunks - 1:
    for i, w, t, v in T.Parallel(*tile.shape):
        {WAIT}""",
        },
        first=(f"n-49152-fp16/{STAGED}",),
    ),
    _softmax(
        id="last-but-one-does-not-wait",
        why="shared memory that nothing has written is read",
        changes={"c < chunks - 1": "c < chunks - 2"},
        first=(f"n-49152-fp16/{STAGED}",),
    ),
    _softmax(
        id="second-pass-reads-the-output",
        why="the second pass reads Y, which nothing has written",
        changes={SECOND_LOAD: SECOND_LOAD.replace("X[", "Y[")},
        first=(f"n-32769-fp32/{ALONE}",),
    ),
    _softmax(
        id="second-pass-forwards-from-backwards",
        why="pieces are read from one end and written from the other",
        changes={SECOND_LOAD: SECOND_LOAD.replace("start", "p * piece")},
        first=(f"n-49152-fp16/{ALONE}",),
    ),
    _softmax(
        id="second-pass-last-element-not-written",
        why="the second pass stops one column early",
        changes={STORE_AGAIN: f"if start + column(i, w, t, v) < N - 1:\n    {STORE_AGAIN}"},
        first=(f"n-32769-fp32/{SHARED}",),
    ),
    _softmax(
        id="second-pass-not-normalised",
        why="weights are not divided by their sum",
        changes={STORE_AGAIN: STORE_AGAIN.replace(" / row_total[w // warps]", "")},
        first=(f"n-32769-fp32/{ALONE}",),
    ),
    _softmax(
        id="second-pass-by-a-threads-maximum",
        why="weights by a thread's maximum are divided by the sum of the row",
        changes={WEIGH_AGAIN: WEIGH_AGAIN.replace("row_top[w // warps]", "top[w, t]")},
        first=(f"n-32769-fp32/{ALONE}",),
    ),
    _softmax(
        id="second-pass-scaled-before-subtracted",
        why="x * log2(e) and max * log2(e) are rounded each, and cancel",
        changes={WEIGH_AGAIN: "weight = T.exp2(value * LOG2E - row_top[w // warps] * LOG2E)"},
        first=(f"ten-thousand-online-fp32/{ALONE}",),
    ),
    # What only a GPU shows.
    _softmax(
        id="exchange-without-barrier",
        why="warps read what the others have not written yet",
        changes={},
        first=(
            "n-8191-fp32",
            "n-32768-fp16",
            "n-32769-fp32",
        ),
        options={"tl.disable_thread_storage_sync": True},
        unseen="barriers between threads",
    ),
)
