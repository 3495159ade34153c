"""Wrong attentions."""

from collections.abc import Callable
from functools import partial

from kernels.flash_attention import Schedule, default_schedule
from tests.harness.mutants.engine import Mutant
from tilecheck.arches import Arch


def _on_hopper(schedule: Schedule) -> Callable[..., Schedule]:
    def default(q_len: int, k_len: int, head_dim: int, causal: bool, arch: Arch) -> Schedule:
        if arch.capability == (9, 0):
            return schedule
        return default_schedule(q_len, k_len, head_dim, causal, arch)

    return default


def plain(q_len: int, k_len: int, head_dim: int, causal: bool, arch: Arch) -> Schedule:
    """What takes `program`."""
    block_m, block_n = 64 if q_len <= 64 else 128, 128 if head_dim <= 128 else 64
    steps = Schedule(block_m, block_n, 2, 2 * block_m)
    return steps if arch.capability == (9, 0) else default_schedule(q_len, k_len, head_dim, causal, arch)


STAYING = _on_hopper(Schedule(64, 64, 2, 128, overlap=True, blocks=3))
"""Blocks that overlap, and stay: small cases take several turns, of several tiles of keys."""

_mutant = partial(Mutant, kernel="flash_attention", default_schedule=plain)
_overlapped = partial(_mutant, within="overlapped", default_schedule=STAYING)
_first = partial(_mutant, within="first_query", default_schedule=STAYING)
_walked = partial(_mutant, within="QueryWalk", default_schedule=STAYING)

TILE_OF_QUERIES = "T.alloc_shared((block_m, head_dim)"
TILE_OF_KEYS = "T.alloc_shared((block_n, head_dim)"
Q0 = "q0 = (q_tiles - 1 - tile) * block_m"
GROUP = "group = head // (heads // kv_heads)"
LOAD_Q = "T.copy(Q[b, head, q0 : q0 + block_m, :], q_shared)"
LOAD_K = "T.copy(K[b, group, k0 : k0 + block_n, :], k_shared)"
LOAD_V = "T.copy(V[b, group, k0 : k0 + block_n, :], v_shared)"
KEYS = "keys = T.min(T.max(visible(q0 + block_m - 1), 1), k_len)"
MASK_NEEDED = "if k0 + block_n > visible(q0):"
SEEN = "seen = k0 + j < visible(q0 + i)"
KEEP_TOP = "T.copy(top, old_top)"
RAISE_TOP = "T.reduce_max(scores, top, dim=1, clear=False)"
WEIGH = "scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)"
ROUND = "T.copy(scores, weights)"
SUM = "T.reduce_sum(scores, tile_total, dim=1)"
RESCALE = "rescale[i] = T.exp2((old_top[i] - top[i]) * scale)"
TOTAL = "total[i] = total[i] * rescale[i] + tile_total[i]"
FOLLOW = "out[i, j] *= rescale[i]"
FOLLOW_LOOP = f"for i, j in T.Parallel(block_m, head_dim):\n    {FOLLOW}"
GEMM_V = "T.gemm(weights, v_shared, out, policy=by_rows)"
INVERT = "total[i] = T.if_then_else(total[i] == 0.0, 0.0, 1.0 / total[i])"
NORMALISE = "out[i, j] *= total[i]"
STAGE_OUT = "T.copy(out, out_shared)"
STORE = "T.copy(out_shared, Out[b, head, q0 : q0 + block_m, :])"
FIRST_STORE = "Out[b, head, q0 + i, j] = out[i, j]"
LOW = 'T.fill(top, T.min_value("float32"))'
VISIBLE = "return query + 1 + k_len - q_len if causal else k_len"
PRODUCT = GEMM_V.replace("T.gemm", "T.wgmma_gemm")

MUTANTS = (
    # The mask.
    _mutant(
        id="tail-of-keys-not-masked",
        why="not causal, the zeros past the last key weigh exp(0 - max) each",
        changes={VISIBLE: VISIBLE.replace("else k_len", "else k_len + block_n")},
        first=("last-key-fp16",),
    ),
    _mutant(
        id="tail-of-keys-masked-one-late",
        why="not causal, one zero past the last key weighs",
        changes={SEEN: "seen = k0 + j < visible(q0 + i) + (0 if causal else 1)"},
        first=("last-key-fp16",),
    ),
    _mutant(
        id="tail-of-keys-masked-one-early",
        why="not causal, the last key is hidden",
        changes={VISIBLE: VISIBLE.replace("else k_len", "else k_len - 1")},
        first=("last-key-fp16",),
    ),
    _mutant(
        id="diagonal-one-late",
        why="a query sees the key after its own",
        changes={VISIBLE: VISIBLE.replace("query + 1", "query + 2")},
        first=("last-key-causal-fp16",),
    ),
    _mutant(
        id="diagonal-one-early",
        why="a query does not see its own key",
        changes={VISIBLE: VISIBLE.replace("query + 1", "query")},
        first=("last-key-causal-fp16",),
    ),
    _mutant(
        id="aligned-top-left",
        why="query i sees key j <= i, as torch's is_causal has it",
        changes={VISIBLE: VISIBLE.replace("query + 1 + k_len - q_len", "query + 1")},
        first=("more-keys-causal-fp16",),
    ),
    _mutant(
        id="alignment-reversed",
        why="shifted by q_len - k_len",
        changes={VISIBLE: VISIBLE.replace("k_len - q_len", "q_len - k_len")},
        first=("more-keys-causal-fp16",),
    ),
    _mutant(
        id="causal-ignored",
        why="every query sees every key",
        changes={VISIBLE: "return k_len"},
        first=("len-64-causal-fp16",),
    ),
    _mutant(
        id="always-causal",
        why="the flag is ignored",
        changes={VISIBLE: "return query + 1 + k_len - q_len"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="diagonal-of-the-tile",
        why="the mask compares places within the tile",
        changes={SEEN: "seen = j < visible(i)"},
        first=("len-129-fp16",),
    ),
    _mutant(
        id="mask-transposed",
        why="i and j are swapped",
        changes={SEEN: "seen = k0 + i < visible(q0 + j)"},
        first=("len-64-causal-fp16",),
    ),
    _mutant(
        id="mask-by-the-last-query",
        why="only tiles past what the block's last query sees are masked",
        changes={MASK_NEEDED: "if k0 + block_n > visible(q0 + block_m - 1):"},
        first=("len-128-causal-fp16",),
    ),
    _mutant(
        id="mask-needed-one-late",
        why="a tile that hides one key of its first query is not masked",
        changes={MASK_NEEDED: "if k0 + block_n > visible(q0) + 1:"},
        first=("len-127-fp16",),
    ),
    _mutant(
        id="mask-needed-one-late-causal",
        why="causal, a tile that hides one key of its first query is not masked",
        changes={MASK_NEEDED: "if k0 + block_n > visible(q0) + (1 if causal else 0):"},
        first=("last-key-hidden-fp16",),
    ),
    _mutant(
        id="only-the-last-tile-masked",
        why="with more queries than keys in a tile, the diagonal crosses two",
        changes={MASK_NEEDED: "if k0 + block_n >= keys:"},
        first=("dim-256-causal-bf16",),
    ),
    _mutant(
        id="masked-with-zero",
        why="hidden keys have a score of 0",
        changes={'-T.infinity("float32"))': "0.0)"},
        first=("last-key-fp16",),
    ),
    _mutant(
        id="masked-with-ten-thousand",
        why="hidden keys have a score of -10000: queries that see none average all values",
        changes={'-T.infinity("float32"))': "-10000.0)"},
        first=("more-queries-causal-fp16",),
    ),
    _mutant(
        id="masked-after-the-maximum",
        why="hidden keys still raise the maximum",
        changes={
            RAISE_TOP: "",
            MASK_NEEDED: f"{RAISE_TOP}\n{MASK_NEEDED}",
            KEEP_TOP: "",
            "# Hide what lies past the diagonal, and the zeros that a copy puts past the last key.": KEEP_TOP,
        },
        first=("last-key-causal-fp16",),
    ),
    _mutant(
        id="summed-before-masked",
        why="hidden keys count in the sum, and weigh nothing",
        changes={
            '-T.infinity("float32"))': "scores[i, j])",
            ROUND: """\
for i, j in T.Parallel(block_m, block_n):
    weights[i, j] = T.if_then_else(k0 + j < visible(q0 + i), scores[i, j], 0.0)""",
        },
        first=("len-64-causal-fp16",),
    ),
    # The walk over the keys.
    _mutant(
        id="keys-rounded-down",
        why="the tail of the keys is skipped",
        changes={"T.ceildiv(keys, block_n)": "T.floordiv(keys, block_n)"},
        first=("len-129-fp16",),
    ),
    _mutant(
        id="keys-of-the-first-query",
        why="the walk ends where the block's first query sees no more",
        changes={KEYS: "keys = T.min(T.max(visible(q0), 1), k_len)"},
        first=("dim-256-causal-bf16",),
    ),
    _mutant(
        id="keys-of-the-last-query-but-one",
        why="the walk ends where the block's last query sees one key more",
        changes={KEYS: "keys = T.min(T.max(visible(q0 + block_m - 2), 1), k_len)"},
        first=("last-key-alone-fp16",),
    ),
    _mutant(
        id="second-tile-skipped",
        why="one tile of keys is left out",
        changes={GEMM_V: f"if k != 1:\n    {GEMM_V}"},
        first=("len-256-fp16",),
    ),
    _mutant(
        id="keys-stale",
        why="K's tile is that of the first trip",
        changes={LOAD_K: f"if k == 0:\n    {LOAD_K}"},
        first=("len-256-fp16",),
    ),
    _mutant(
        id="values-of-the-first-tile",
        why="V does not advance",
        changes={LOAD_V: "T.copy(V[b, group, 0:block_n, :], v_shared)"},
        first=("len-256-fp16",),
    ),
    _mutant(
        id="values-one-off",
        why="V is read one row further down than K",
        changes={LOAD_V: "T.copy(V[b, group, k0 + 1 : k0 + 1 + block_n, :], v_shared)"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="values-from-keys",
        why="K in the place of V",
        changes={LOAD_V: "T.copy(K[b, group, k0 : k0 + block_n, :], v_shared)"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="values-multiplied-before-loaded",
        why="V's tile is that of the last trip",
        changes={LOAD_V: GEMM_V, GEMM_V: LOAD_V},
        first=("len-256-fp16",),
    ),
    # Heads, batches, tiles of queries.
    _mutant(
        id="group-by-remainder",
        why="heads that share keys are taken to lie kv_heads apart",
        changes={GROUP: "group = head % kv_heads"},
        first=("grouped-fp16",),
    ),
    _mutant(
        id="group-divided-by-kv-heads",
        why="divided by the number of key heads, not by the heads that share one",
        changes={GROUP: "group = head // kv_heads"},
        first=("grouped-causal-bf16",),
    ),
    _mutant(
        id="group-forgotten",
        why="head h reads key head h, past the last one",
        changes={GROUP: "group = head"},
        first=("grouped-fp16",),
    ),
    _mutant(
        id="keys-of-the-first-batch",
        why="K does not follow the batch",
        changes={LOAD_K: "T.copy(K[0, group, k0 : k0 + block_n, :], k_shared)"},
        first=("batch-fp16",),
    ),
    _mutant(
        id="values-of-the-first-batch",
        why="V does not follow the batch",
        changes={LOAD_V: "T.copy(V[0, group, k0 : k0 + block_n, :], v_shared)"},
        first=("batch-fp16",),
    ),
    _mutant(
        id="queries-of-the-group",
        why="heads that share keys read one head's queries",
        changes={LOAD_Q: "T.copy(Q[b, group, q0 : q0 + block_m, :], q_shared)"},
        first=("grouped-fp16",),
    ),
    _mutant(
        id="head-and-batch-swapped",
        why="the grid's axes are named the wrong way round",
        changes={"as (tile, head, b)": "as (tile, b, head)"},
        first=("grouped-fp16",),
    ),
    _mutant(
        id="stored-in-the-order-of-the-grid",
        why="tiles of queries are read last first and written first first",
        changes={STORE: "T.copy(out_shared, Out[b, head, tile * block_m : (tile + 1) * block_m, :])"},
        first=("len-129-fp16",),
    ),
    _mutant(
        id="query-tiles-rounded-down",
        why="no block for the tail of the queries",
        changes={"math.ceil(q_len / block_m)": "q_len // block_m"},
        first=("len-129-fp16",),
    ),
    _mutant(
        id="out-of-a-group-to-one-head",
        why="heads that share keys write one output",
        changes={STORE: "T.copy(out_shared, Out[b, group, q0 : q0 + block_m, :])"},
        first=("grouped-fp16",),
    ),
    # Softmax.
    _mutant(
        id="not-scaled",
        why="scores are not divided by the root of the head dim",
        changes={" / math.sqrt(head_dim)": ""},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="scaled-by-head-dim",
        why="scores are divided by the head dim",
        changes={"math.sqrt(head_dim)": "head_dim"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="scale-of-another-head-dim",
        why="the root of 64, whatever the head dim",
        changes={"math.sqrt(head_dim)": "8"},
        first=("dim-128-bf16",),
    ),
    _mutant(
        id="base-two",
        why="2^x for exp(x)",
        changes={"math.log2(math.e) / ": "1 / "},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="scaled-for-the-wrong-exponential",
        why="exp of what is scaled for exp2",
        changes={WEIGH: WEIGH.replace("T.exp2", "T.exp")},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="maximum-not-scaled",
        why="the maximum is subtracted in other units than the scores",
        changes={WEIGH: "scores[i, j] = T.exp2(scores[i, j] * scale - top[i])"},
        first=("large-scores-fp16",),
    ),
    _mutant(
        id="maximum-not-subtracted",
        why="large scores overflow",
        changes={WEIGH: "scores[i, j] = T.exp2(scores[i, j] * scale)", RESCALE: "rescale[i] = 1.0"},
        first=("large-scores-fp16",),
    ),
    _mutant(
        id="maximum-of-each-tile",
        why="a tile of hidden keys brings the maximum to -inf",
        changes={RAISE_TOP: "T.reduce_max(scores, top, dim=1)"},
        first=("more-queries-causal-fp16",),
    ),
    _mutant(
        id="maximum-from-minus-infinity",
        why="a query that sees no key gets (-inf) - (-inf)",
        changes={LOW: 'T.fill(top, -T.infinity("float32"))'},
        first=("more-queries-causal-fp16",),
    ),
    _mutant(
        id="maximum-from-zero",
        why="weights of queries whose scores are all far below zero flush to 0",
        changes={LOW: "T.clear(top)"},
        first=("last-key-causal-fp16",),
    ),
    _mutant(
        id="maximum-kept-too-late",
        why="the old maximum is the new one: nothing is rescaled",
        changes={KEEP_TOP: RAISE_TOP, RAISE_TOP: KEEP_TOP},
        first=("rising-fp16",),
    ),
    _mutant(
        id="output-not-rescaled",
        why="the output does not follow the maximum",
        changes={FOLLOW: "out[i, j] *= 1.0"},
        first=("rising-fp16",),
    ),
    _mutant(
        id="output-rescaled-up-to-column-64",
        why="further columns of the output do not follow the maximum",
        changes={FOLLOW_LOOP: FOLLOW_LOOP.replace("head_dim", "min(head_dim, 64)")},
        first=("dim-128-bf16",),
    ),
    _mutant(
        id="total-not-rescaled",
        why="the sum does not follow the maximum",
        changes={TOTAL: "total[i] = total[i] + tile_total[i]"},
        first=("rising-fp16",),
    ),
    _mutant(
        id="rescaled-upwards",
        why="the sign of the exponent is wrong",
        changes={RESCALE: RESCALE.replace("old_top[i] - top[i]", "top[i] - old_top[i]")},
        first=("rising-fp16",),
    ),
    _mutant(
        id="rescaled-without-scale",
        why="the rescaling takes unscaled scores",
        changes={RESCALE: "rescale[i] = T.exp2(old_top[i] - top[i])"},
        first=("rising-fp16",),
    ),
    _mutant(
        id="rescaled-after-the-product",
        why="the new tile is rescaled with the old ones",
        changes={FOLLOW_LOOP: "", GEMM_V: f"{GEMM_V}\n{FOLLOW_LOOP}"},
        first=("rising-fp16",),
    ),
    _mutant(
        id="total-of-the-last-tile",
        why="the sum forgets the tiles before",
        changes={TOTAL: "total[i] = tile_total[i]"},
        first=("len-256-fp16",),
    ),
    _mutant(
        id="total-of-scores",
        why="the sum is taken before the exponential",
        changes={KEEP_TOP: f"{KEEP_TOP}\n{SUM}", SUM: ""},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="blind-queries-not-guarded",
        why="a query that sees no key divides by 0",
        changes={INVERT: "total[i] = 1.0 / total[i]"},
        first=("more-queries-causal-fp16",),
    ),
    _mutant(
        id="not-normalised",
        why="the output is not divided by the sum",
        changes={NORMALISE: "out[i, j] *= 1.0"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="normalised-before-the-last-tile",
        why="the last tile is added to what is already divided",
        changes={
            GEMM_V: f"""\
if k == T.ceildiv(keys, block_n) - 1:
    for i, j in T.Parallel(block_m, head_dim):
        out[i, j] /= total[i]
{GEMM_V}""",
            NORMALISE: "out[i, j] *= 1.0",
        },
        first=("len-256-fp16",),
    ),
    # Precision.
    _mutant(
        id="output-in-16-bits",
        why="the output is accumulated in the tensors' type",
        changes={'(block_m, head_dim), "float32"': "(block_m, head_dim), dtype"},
        first=("sink-fp16",),
    ),
    _mutant(
        id="output-rounded-between-tiles",
        why="the output is rounded to 16 bits once a tile",
        changes={FOLLOW: 'out[i, j] = T.cast(T.cast(out[i, j] * rescale[i], dtype), "float32")'},
        first=("sink-fp16",),
    ),
    _mutant(
        id="total-in-16-bits",
        why="the sum is kept in the tensors' type",
        changes={'"float32")  # sum of the weights': "dtype)  # sum of the weights"},
        first=("sink-fp16",),
    ),
    _mutant(
        id="total-of-a-tile-in-16-bits",
        why="the sum of a tile is rounded before it is added",
        changes={
            'tile_total = T.alloc_fragment((block_m,), "float32")': (
                "tile_total = T.alloc_fragment((block_m,), dtype)"
            )
        },
        first=("last-key-alone-fp16",),
    ),
    _mutant(
        id="weights-a-little-large",
        why="what multiplies V is 1 + 2^-10 times what is summed",
        changes={
            ROUND: """\
for i, j in T.Parallel(block_m, block_n):
    weights[i, j] = scores[i, j] * (1 + 2**-10)"""
        },
        first=("sink-fp16",),
    ),
    _mutant(
        id="scores-accumulated-in-16-bits",
        why="products of queries and keys are added in the tensors' type",
        changes={'(block_m, block_n), "float32"': "(block_m, block_n), dtype"},
        first=("large-scores-fp16",),
    ),
    _mutant(
        id="scores-in-16-bits",
        why="scores are rounded to the tensors' type before the maximum",
        changes={
            MASK_NEEDED: f"""\
for i, j in T.Parallel(block_m, block_n):
    scores[i, j] = T.cast(T.cast(scores[i, j], dtype), "float32")
{MASK_NEEDED}"""
        },
        first=("large-scores-fp16",),
    ),
    _mutant(
        id="rescale-in-16-bits",
        why="the factor of the rescaling is rounded",
        changes={
            RESCALE: 'rescale[i] = T.cast(T.cast(T.exp2((old_top[i] - top[i]) * scale), dtype), "float32")'
        },
        first=("creeping-fp16",),
    ),
    _mutant(
        id="rescaled-only-when-worthwhile",
        why="a small rise of the maximum rescales nothing, though the new tile is measured against it",
        changes={RESCALE: f"{RESCALE}\nrescale[i] = T.if_then_else(rescale[i] > 0.999, 1.0, rescale[i])"},
        first=("creeping-fp16",),
    ),
    _mutant(
        id="queries-scaled-in-16-bits",
        why="the scale is multiplied into Q, which is rounded again",
        changes={
            LOAD_Q: f"""\
{LOAD_Q}
for i, j in T.Parallel(block_m, head_dim):
    q_shared[i, j] = T.cast(T.cast(q_shared[i, j], "float32") * scale, dtype)""",
            WEIGH: "scores[i, j] = T.exp2(scores[i, j] - top[i])",
            RESCALE: "rescale[i] = T.exp2(old_top[i] - top[i])",
        },
        first=("large-scores-fp16",),
    ),
    _mutant(
        id="weights-in-bf16",
        why="weights and V are multiplied in bf16",
        changes={
            "(block_m, block_n), dtype": '(block_m, block_n), "bfloat16"',
            f"v_shared = {TILE_OF_KEYS}, dtype)": f'v_shared = {TILE_OF_KEYS}, "bfloat16")',
        },
        first=("len-64-fp16",),
    ),
    _mutant(
        id="queries-in-bf16",
        why="Q and K are multiplied in bf16",
        changes={
            f"q_shared = {TILE_OF_QUERIES}, dtype)": f'q_shared = {TILE_OF_QUERIES}, "bfloat16")',
            f"k_shared = {TILE_OF_KEYS}, dtype)": f'k_shared = {TILE_OF_KEYS}, "bfloat16")',
        },
        first=("large-scores-fp16",),
    ),
    _mutant(
        id="nan-hidden",
        why="fmax with 0 takes NaN out of the weights",
        changes={WEIGH: "scores[i, j] = T.max(T.exp2(scores[i, j] * scale - top[i] * scale), 0.0)"},
        first=("special-causal-fp16",),
    ),
    # Memory.
    _mutant(
        id="scores-not-cleared",
        why="scores add up over the tiles",
        changes={"transpose_B=True, clear_accum=True": "transpose_B=True"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="scores-cleared-once",
        why="scores add up over the tiles",
        changes={"clear_accum=True": "clear_accum=k == 0"},
        first=("len-256-fp16",),
    ),
    _mutant(
        id="output-not-cleared",
        why="adds to registers that nothing has written",
        changes={"T.clear(out)": ""},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="total-not-cleared",
        why="adds to registers that nothing has written",
        changes={"T.clear(total)": ""},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="output-not-staged",
        why="stores shared memory that nothing has written",
        changes={STAGE_OUT: ""},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="half-a-head-stored",
        why="the second half of the head dim is not written",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m, head_dim // 2):
    Out[b, head, q0 + i, j] = out_shared[i, j]"""
        },
        first=("len-64-fp16",),
    ),
    _mutant(
        id="tail-of-queries-over-the-end",
        why="whole tiles of queries are stored, without TileLang's guards, over the next head",
        changes={
            STORE: """\
for i, j in T.Parallel(block_m, head_dim):
    Out[b, head, q0 + i, j] = out_shared[i, j]"""
        },
        options={"tl.disable_safe_memory_legalize": True},
        first=("len-17-fp16",),
    ),
    _mutant(
        id="in-place",
        why="the output replaces Q as well",
        changes={STORE: f"{STORE}\nT.copy(out_shared, Q[b, head, q0 : q0 + block_m, :])"},
        first=("len-64-fp16",),
    ),
    _mutant(
        id="maximum-starts-at-1e4",
        why="queries whose scores lie below -1e4 come out as zeros",
        changes={'T.fill(top, T.min_value("float32"))': "T.fill(top, -1e4)"},
        first=("low-scores-fp16",),
    ),
    _mutant(
        id="maximum-starts-at-1e4-unless-causal",
        why="queries whose scores lie below -1e4 come out as zeros",
        changes={
            'T.fill(top, T.min_value("float32"))': 'T.fill(top, T.min_value("float32") if causal else -1e4)'
        },
        first=("low-scores-bf16",),
    ),
    _mutant(
        id="rescaled-by-2e-24-at-least",
        why="what hardly counts any more is not scaled down as far",
        changes={
            "rescale[i] = T.exp2((old_top[i] - top[i]) * scale)": (
                "rescale[i] = T.exp2(T.max((old_top[i] - top[i]) * scale, -24.0))"
            )
        },
        first=("tower-bf16",),
    ),
    _mutant(
        id="diagonal-off-by-one-from-300-queries-on",
        why="long causal rows see one key more",
        changes={"query + 1 + k_len - q_len": "query + 1 + k_len - q_len + (1 if q_len > 300 else 0)"},
        first=("len-400-causal-bf16",),
    ),
    _mutant(
        id="scaled-by-heads-from-8-on",
        why="scores are divided by the root of the number of heads",
        changes={"math.sqrt(head_dim)": "math.sqrt(head_dim if heads < 8 else heads)"},
        first=("heads-8-causal-fp16",),
    ),
    _mutant(
        id="keys-past-32-tiles-lost",
        why="a block reads 32 tiles of keys at most",
        changes={"T.ceildiv(keys, block_n), num_stages": "T.min(T.ceildiv(keys, block_n), 32), num_stages"},
        first=("many-keys-fp16",),
    ),
    # The form that overlaps.
    _overlapped(
        id="overlapped-mask-of-the-next-tile",
        why="a tile's scores are masked as those of the tile that is loaded next",
        changes={SEEN: "seen = k0 + block_n + j < visible(q0 + i)"},
        first=("len-129-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-mask-needed-one-late",
        why="a tile that hides one key of its first query is not masked",
        changes={MASK_NEEDED: "if k0 + block_n > visible(q0) + 1:"},
        first=("len-127-fp16",),
    ),
    _overlapped(
        id="overlapped-diagonal-one-late",
        why="a query sees the key after its own",
        changes={VISIBLE: VISIBLE.replace("query + 1", "query + 2")},
        first=("last-key-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-walk-ends-at-the-first-query",
        why="the walk over the keys ends where the tile's first query sees no more",
        changes={KEYS: "keys = T.min(T.max(visible(q0), 1), k_len)"},
        first=("last-key-more-keys-fp16",),
    ),
    _overlapped(
        id="overlapped-rescaled-after-the-product",
        why="the step's own product is rescaled with those before",
        changes={FOLLOW_LOOP: "", PRODUCT: f"{PRODUCT}\n{FOLLOW_LOOP}"},
        first=("rising-fp16",),
    ),
    _overlapped(
        id="overlapped-rescaled-by-the-step-before",
        why="the output follows the maximum one step late",
        changes={
            FOLLOW_LOOP: "",
            KEEP_TOP: f"""\
if k > 0:
    for i, j in T.Parallel(block_m, head_dim):
        {FOLLOW}
{KEEP_TOP}""",
        },
        first=("rising-fp16",),
    ),
    _overlapped(
        id="overlapped-maximum-of-each-tile",
        why="a tile of hidden keys brings the maximum to -inf",
        changes={RAISE_TOP: "T.reduce_max(scores, top, dim=1)"},
        first=("more-queries-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-total-not-rescaled",
        why="the sum does not follow the maximum",
        changes={TOTAL: "total[i] = total[i] + tile_total[i]"},
        first=("rising-fp16",),
    ),
    _overlapped(
        id="overlapped-last-product-lost",
        why="the walk ends with the scores of the last tile, whose product is still to come",
        changes={PRODUCT: f"if k + 1 < T.ceildiv(keys, block_n):\n    {PRODUCT}"},
        first=("len-64-fp16",),
    ),
    _overlapped(
        id="overlapped-first-product-lost",
        why="at the first tile there is no product of a tile before, but there is its own",
        changes={PRODUCT: f"if k > 0:\n    {PRODUCT}"},
        first=("len-64-fp16",),
    ),
    _overlapped(
        id="overlapped-weights-before-the-maximum",
        why="scores are rounded before they become weights",
        changes={KEEP_TOP: f"{ROUND}\n{KEEP_TOP}", f'with T.ws_op("round"):\n    {ROUND}': ""},
        first=("len-64-fp16",),
    ),
    _overlapped(
        id="overlapped-values-one-tile-behind",
        why="V's tile is that of the step before, as its product is",
        changes={LOAD_V: f"v0 = T.max(k0 - block_n, 0)\n{LOAD_V.replace('k0', 'v0')}"},
        first=("len-256-fp16",),
    ),
    _overlapped(
        id="overlapped-output-in-16-bits",
        why="the output is accumulated in the tensors' type",
        changes={'(block_m, head_dim), "float32"': "(block_m, head_dim), dtype"},
        first=("sink-fp16",),
    ),
    _overlapped(
        id="overlapped-blind-queries-not-guarded",
        why="a query that sees no key divides by 0",
        changes={INVERT: "total[i] = 1.0 / total[i]"},
        first=("more-queries-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-group-by-remainder",
        why="heads that share keys are taken to lie kv_heads apart",
        changes={GROUP: "group = head % kv_heads"},
        first=("grouped-fp16",),
    ),
    _overlapped(
        id="overlapped-first-tile-not-stored",
        why="the queries of the tile that begins before row 0 get no output",
        changes={FIRST_STORE: "T.evaluate(0)"},
        first=("len-65-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-first-tile-stored-from-row-0",
        why="the output of the tile that begins before row 0 is stored as if it began there",
        changes={FIRST_STORE: "Out[b, head, i, j] = out[i, j]"},
        first=("len-65-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-first-tile-over-the-start",
        why="rows before row 0 are stored, without TileLang's guards, over the head before",
        changes={"if q0 + i >= 0:": "if q0 + i >= -block_m:"},
        options={"tl.disable_safe_memory_legalize": True},
        first=("grouped-causal-bf16",),
    ),
    _overlapped(
        id="overlapped-row-0-not-stored",
        why="the first row is taken for one before the first",
        changes={"if q0 + i >= 0:": "if q0 + i > 0:"},
        first=("len-65-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-first-tile-not-normalised",
        why="rows of the tile that begins before row 0 are sums, not means",
        changes={FIRST_STORE: "Out[b, head, q0 + i, j] = out[i, j] / total[i]"},
        first=("len-127-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-first-tile-of-the-group",
        why="heads that share keys store the tile that begins before row 0 to one head",
        changes={FIRST_STORE: FIRST_STORE.replace("head", "group", 1)},
        first=("grouped-causal-bf16",),
    ),
    _overlapped(
        id="overlapped-tiles-from-row-0",
        why="the first tile is not moved, but the last one is where it would be",
        changes={"start + tile * block_m": "T.max(start + tile * block_m, 0)"},
        first=("len-65-causal-fp16",),
    ),
    _first(
        id="overlapped-start-one-late",
        why="tiles end a row past the last query, and row 0 is in none",
        changes={"q_len - tiles * block_m if": "q_len - tiles * block_m + 1 if"},
        first=("len-128-causal-fp16",),
    ),
    _overlapped(
        id="overlapped-last-tile-not-walked",
        why="tiles that end past the last query are left out",
        changes={"q_len + block_m - 1, block_m)": "q_len, block_m)"},
        first=("len-65-fp16",),
    ),
    _first(
        id="overlapped-one-tile-before-row-0",
        why="the only tile begins before row 0 at compile time, where TileLang counts from the end",
        changes={"causal and tiles > 1": "causal"},
        first=("len-17-causal-fp16",),
    ),
    # Blocks that stay.
    _overlapped(
        id="staying-queries-of-the-first-turn",
        why="the tile of queries is loaded once",
        changes={LOAD_Q: f"if turn == 0:\n    {LOAD_Q}"},
        first=("len-256-fp16",),
    ),
    _overlapped(
        id="staying-maximum-not-lowered",
        why="later turns begin with the largest scores of the turn before",
        changes={LOW: f"if turn == 0:\n    {LOW}"},
        first=("huge-scores-full-fp16",),
    ),
    _walked(
        id="staying-last-turn-lost",
        why="tiles that do not fill a turn are left out",
        changes={") // self.blocks + 1": ") // self.blocks"},
        first=("len-256-fp16",),
    ),
    _walked(
        id="staying-backwards-one-short",
        why="a turn that goes backwards begins a place late",
        changes={"(self.blocks - 1 - 2 * block)": "(self.blocks - 2 * block)"},
        first=("heads-8-causal-fp16",),
    ),
    _walked(
        id="staying-one-turn-less-apart",
        why="turns overlap by a tile, which two blocks store",
        changes={"turn * self.blocks +": "turn * (self.blocks - 1) +"},
        first=("grouped-fp16",),
    ),
    _walked(
        id="staying-rows-by-tiles",
        why="rows and tiles are numbered the wrong way round",
        changes={"within // self._near": "within // self._tiles"},
        first=("heads-8-causal-fp16",),
    ),
    # What only a GPU shows.
    _mutant(
        id="values-released-early",
        why="V's tile is given back as soon as the product is ordered, and loaded anew while it runs",
        within="warp_roles",
        default_schedule=_on_hopper(Schedule(128, 96, 1, 256, overlap=True)),
        changes={
            '"order product"),': '"order product", release("V", stage=1)),',
            '"await product", release("V", stage=1), "round"': '"await product", "round"',
        },
        first=("dim-256-fp16", "dim-128-4k-fp16", "model-1x64x2048-fp16"),
        unseen="asynchronous products: they are done at once",
    ),
    _overlapped(
        id="overlapped-bulk-store-from-before-row-0",
        why="a bulk copy stores the tile that begins before row 0: an illegal instruction on an H200",
        changes={"if q0 < 0:": "if q0 < -block_m:"},
        first=("len-65-causal-fp16",),
        unseen="bulk stores, which may not begin before row 0",
    ),
    _mutant(
        id="output-staged-without-barrier",
        why="the tile of the output is stored while other warps are still writing it",
        changes={},
        options={"tl.disable_thread_storage_sync": True},
        first=("len-296-fp16", "dim-128-bf16", "model-1x64x2048-fp16"),
        unseen="barriers between threads",
    ),
    _mutant(
        id="keys-not-awaited",
        why="K's tile is multiplied while cp.async is still filling it",
        changes={LOAD_K: LOAD_K.replace("T.copy", "T.async_copy"), "num_stages=stages": "num_stages=0"},
        first=("len-64-fp16", "len-296-fp16"),
        unseen="asynchronous copies: they are done at once",
    ),
    _mutant(
        id="scores-not-awaited",
        why="scores are read while wgmma is still adding to them",
        changes={"T.gemm(q_shared": "T.wgmma_gemm(q_shared"},
        first=("len-296-fp16", "dim-128-bf16"),
        unseen="asynchronous products: they are done at once",
    ),
)
