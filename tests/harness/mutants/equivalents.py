"""Right kernels, written differently: a suite that rejects one of them raises false alarms."""

from functools import partial

from tests.harness.mutants import flash_attention as attention
from tests.harness.mutants import matmul, matmul_bias_gelu, softmax
from tests.harness.mutants.engine import Edit

_add = partial(Edit, kernel="vector_add")
_matmul = partial(Edit, kernel="matmul")
_gelu = partial(Edit, kernel="matmul_bias_gelu")
_softmax = partial(Edit, kernel="softmax")
_attention = partial(Edit, kernel="flash_attention", default_schedule=attention.plain)

EQUIVALENTS = (
    _add(
        id="one-block-more",
        why="what is past the end is not stored",
        changes={"T.ceildiv(N, block)": "T.ceildiv(N, block) + 1"},
    ),
    _add(
        id="straight-from-memory",
        why="no fragments: elements are read, added and written one by one, guarded by the compiler",
        changes={
            "T.copy(A[bx * block], A_local)": "",
            "T.copy(B[bx * block], B_local)": "",
            "A_local[i] += B_local[i]": "C[bx * block + i] = A[bx * block + i] + B[bx * block + i]",
            "T.copy(A_local, C[bx * block])": "",
        },
    ),
    _add(
        id="in-fp32-from-the-last-block",
        why="blocks in another order; a sum rounded to fp32 and then to 16 bits is the sum rounded once",
        changes={
            "with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:": (
                "with T.Kernel(T.ceildiv(N, block), threads=threads) as from_last:\n"
                "    bx = T.ceildiv(N, block) - 1 - from_last"
            ),
            "A_local[i] += B_local[i]": (
                'A_local[i] = T.cast(T.cast(A_local[i], "float32") + T.cast(B_local[i], "float32"), dtype)'
            ),
        },
    ),
    _matmul(
        id="k-backwards",
        why="sums may be taken in any order",
        changes={
            matmul.LOAD_A: matmul.LOAD_A.replace("k * block_k", "(T.ceildiv(K, block_k) - 1 - k) * block_k"),
            matmul.LOAD_B: matmul.LOAD_B.replace("k * block_k", "(T.ceildiv(K, block_k) - 1 - k) * block_k"),
        },
    ),
    _matmul(
        id="one-trip-and-one-column-of-blocks-more",
        why="past the end, loads give zero and stores do nothing",
        changes={
            matmul.TRIPS: "T.ceildiv(K, block_k) + 1, num_stages",
            "T.ceildiv(N, block_n), T": "T.ceildiv(N, block_n) + 1, T",
        },
    ),
    _matmul(
        id="other-tiles",
        why="tiles that the schedule does not know",
        changes={
            "import tilelang.language as T": """\
import tilelang.language as T

block_m, block_n, block_k = 32, 96, 48"""
        },
    ),
    _matmul(
        id="product-by-product-in-fp64",
        why="no tensor cores, no shared memory: products are added one by one, in fp64",
        changes={
            '(block_m, block_n), "float32"': '(block_m, block_n), "float64"',
            matmul.TRIPS: "K, num_stages",
            matmul.LOAD_A: "",
            matmul.LOAD_B: "",
            matmul.GEMM: """\
for i, j in T.Parallel(block_m, block_n):
    m, n = by * block_m + i, bx * block_n + j
    a = A[k, m] if trans_a else A[m, k]
    b = B[n, k] if trans_b else B[k, n]
    C_local[i, j] += T.cast(a, "float64") * T.cast(b, "float64")""",
        },
    ),
    _matmul(
        id="each-tile-by-itself",
        why="products of tiles are added up in fp32 outside of the tensor cores",
        changes={
            "T.clear(C_local)": 'part = T.alloc_fragment((block_m, block_n), "float32")\nT.clear(C_local)',
            matmul.GEMM: matmul.GEMM.replace("C_local", "part").replace(
                "policy)", "policy, clear_accum=True)"
            )
            + "\nfor i, j in T.Parallel(block_m, block_n):\n    C_local[i, j] += part[i, j]",
        },
    ),
    _matmul(
        id="stored-element-by-element",
        why="each element is guarded and rounded by itself",
        changes={
            matmul.STORE: """\
for i, j in T.Parallel(block_m, block_n):
    if by * block_m + i < M and bx * block_n + j < N:
        C[by * block_m + i, bx * block_n + j] = T.cast(C_local[i, j], dtype)"""
        },
    ),
    _gelu(
        id="sum-starts-at-the-bias",
        why="the bias goes into the accumulator before the products",
        changes={
            "T.clear(C_local)": (
                "load_bias(bias, bx, half_bias)\n"
                "for i, j in T.Parallel(block_m, block_n):\n    C_local[i, j] = 2 * half_bias[j]"
            ),
            matmul_bias_gelu.ADD: "C_local[i, j] = 0.5 * C_local[i, j]",
        },
    ),
    _gelu(
        id="bias-in-its-own-type",
        why="half a bias has no more bits than the whole",
        changes={'(block_n,), "float32"': "(block_n,), dtype"},
    ),
    _gelu(
        id="epilogue-at-the-store",
        why="the epilogue goes by elements of C, and reads bias from memory",
        changes={
            matmul_bias_gelu.LOAD_BIAS: "T.clear(half_bias)",
            matmul_bias_gelu.ADD: 'x = 0.5 * (C_local[i, j] + T.cast(bias[bx * block_n + j], "float32"))',
            matmul_bias_gelu.GELU: (
                "C[by * block_m + i, bx * block_n + j] = gelu_of_twice(x, approximate, fast)"
            ),
            matmul_bias_gelu.STORES: "",
        },
    ),
    _softmax(
        id="times-the-reciprocal",
        why="one rounding more, which the bound counts",
        changes={
            softmax.FACTOR: softmax.FACTOR.replace("/ row", "* (1.0 / row") + ")",
            softmax.STORE_AGAIN: softmax.STORE_AGAIN.replace("weight /", "weight * (1.0 /") + ")",
        },
    ),
    _softmax(
        id="exp-for-exp2",
        why="the other exponential",
        changes={softmax.WEIGH: "tile[i, w, t, v] = T.exp(tile[i, w, t, v] - top[w, t])"},
    ),
    _softmax(
        id="in-fp64",
        why="weights and sums in fp64",
        changes={
            line: line.replace("float32", "float64")
            for line in (
                softmax.FIRST_LOAD,
                softmax.MASK,
                'tile = T.alloc_fragment((chunk // width, rows * warps, lanes, vector), "float32")',
                'folded = T.alloc_fragment((rows * warps, lanes, vector), "float32")',
                '"float32")  # of a thread, so far',
                'old_top = T.alloc_fragment((rows * warps, lanes), "float32")',
                '"float32")  # so far, relative',
                'warp_top = T.alloc_fragment((rows * warps,), "float32")',
                'warp_total = T.alloc_fragment((rows * warps,), "float32")',
                'notes = T.alloc_shared((1, 2, rows * warps), "float32")',
                'notes = T.alloc_shared((cluster, 2, rows * warps), "float32")',
                'row_top = T.alloc_fragment((rows,), "float32")',
                'row_total = T.alloc_fragment((rows,), "float32")',
                'tops = T.alloc_fragment((rows, warps), "float32")',
                'totals = T.alloc_fragment((rows, warps), "float32")',
            )
        },
    ),
    _softmax(
        id="tail-masked-twice",
        why="columns past the end raise no maximum, and then have a weight of 0 whatever it is",
        changes={
            softmax.WEIGH: f"""\
{softmax.WEIGH}
if start + column(i, w, t, v) >= N:
    tile[i, w, t, v] = 0.0"""
        },
    ),
    _softmax(
        id="always-in-chunks",
        why="rows that fit are read twice as well, a load of each thread at a time",
        changes={
            "team, vector = threads // rows, _vector(N, dtype)": """\
team, vector = threads // rows, _vector(N, dtype)
chunk, share, staged, cluster = team * vector, 0, False, 1"""
        },
    ),
    _softmax(
        id="output-as-scratch",
        why="what the first pass leaves in Y, the second writes again",
        changes={
            softmax.WEIGH: f"""\
{softmax.WEIGH}
if not share:
    Y[first + w // warps, start + column(i, w, t, v)] = tile[i, w, t, v]"""
        },
    ),
    _softmax(
        id="second-pass-forwards",
        why="pieces are written in another order",
        changes={
            softmax.START_AGAIN: "start = (part + p) * piece",
            "waiting[pieces - 1 - p, i, w, t, v]": "waiting[p, i, w, t, v]",
        },
    ),
    _softmax(
        id="first-pass-from-the-start",
        why="all blocks of a row sum its chunks in one order",
        changes={softmax.START: "return (c if share else part + c) * chunk"},
    ),
    _softmax(
        id="maximum-first",
        why="three passes: sums are taken by a thread's last maximum, and nothing is rescaled",
        changes={
            softmax.RESCALE: "total[w, t] *= 1.0",
            softmax.KEEP_TOP: "",
            softmax.RAISE_TOP: "",
            f"{softmax.CHUNKS}\n    start = start_of(c, part)": f"""\
{softmax.CHUNKS}
    start = start_of(c, part)
    for i, w, t, v in T.Parallel(*tile.shape):
        value = T.cast(X[first + w // warps, start + column(i, w, t, v)], "float32")
        inside = start + column(i, w, t, v) < N
        tile[i, w, t, v] = T.if_then_else(inside, value, -T.infinity("float32"))
    T.reduce_max(tile, folded, dim=0)
    T.reduce_max(folded, top, dim=2, clear=False)
{softmax.CHUNKS}
    start = start_of(c, part)""",
        },
    ),
    _attention(
        id="keys-backwards",
        why="tiles of keys may come in any order",
        changes={"k0 = k * block_n": "k0 = (T.ceildiv(keys, block_n) - 1 - k) * block_n"},
    ),
    _attention(
        id="every-tile-masked",
        why="a mask that hides nothing changes nothing",
        changes={attention.MASK_NEEDED: "if True:"},
    ),
    _attention(
        id="masked-where-nothing-is-hidden",
        why="tiles that end where the first query's sight does are masked too",
        changes={attention.MASK_NEEDED: attention.MASK_NEEDED.replace(">", ">=")},
    ),
    _attention(
        id="walk-past-the-end",
        why="tiles past the last key are zeros, and hidden",
        changes={attention.KEYS: "keys = T.max(visible(q0 + block_m - 1), 1)"},
    ),
    _attention(
        id="tiles-in-the-order-of-the-grid",
        why="the order of the blocks is nobody's business",
        changes={attention.Q0: "q0 = tile * block_m"},
    ),
    _attention(
        id="turns-side-by-side",
        why="which block takes a tile is nobody's business",
        changes={"self._tiles - 1 - within // self._near": "within // self._near"},
        within="QueryWalk",
        default_schedule=attention.STAYING,
    ),
    _attention(
        id="scores-scaled-first",
        why="scale is multiplied into the scores, and the exponential is that of e",
        changes={
            "scale = math.log2(math.e) / math.sqrt(head_dim)": "scale = 1 / math.sqrt(head_dim)",
            attention.KEEP_TOP: (
                "for i, j in T.Parallel(block_m, block_n):\n    scores[i, j] *= scale\n" + attention.KEEP_TOP
            ),
            attention.WEIGH: "scores[i, j] = T.exp(scores[i, j] - top[i])",
            attention.RESCALE: "rescale[i] = T.exp(old_top[i] - top[i])",
        },
    ),
    _attention(
        id="sum-of-the-rounded-weights",
        why="the sum is that of the weights which multiply V",
        changes={attention.SUM: "T.reduce_sum(weights, tile_total, dim=1)"},
    ),
    _attention(
        id="divided-at-the-end",
        why="one division an element, in place of one a query",
        changes={
            attention.INVERT: "total[i] = T.if_then_else(total[i] == 0.0, 1.0, total[i])",
            attention.NORMALISE: "out[i, j] /= total[i]",
        },
    ),
    _attention(
        id="other-tiles",
        why="tiles that the schedule does not know",
        changes={
            "import tilelang.language as T": "import tilelang.language as T\n\nblock_m, block_n = 48, 80"
        },
    ),
    _attention(
        id="dot-products-in-fp64",
        why="no tensor cores, no shared memory, in fp64 from the scores on",
        changes={
            '(block_m, block_n), "float32"': '(block_m, block_n), "float64"',
            "weights = T.alloc_fragment((block_m, block_n), dtype)": "",
            '(block_m, head_dim), "float32"': '(block_m, head_dim), "float64"',
            **{
                f'{vector} = T.alloc_fragment((block_m,), "float32")': (
                    f'{vector} = T.alloc_fragment((block_m,), "float64")'
                )
                for vector in (" top", "old_top", "rescale", " total", "tile_total")
            },
            attention.LOW: 'T.fill(top, T.min_value("float64"))',
            attention.LOAD_Q: "",
            attention.LOAD_K: "",
            "T.gemm(q_shared, k_shared, scores, transpose_B=True, clear_accum=True, policy=by_rows)": """\
T.clear(scores)
for d in T.serial(head_dim):
    for i, j in T.Parallel(block_m, block_n):
        q, key = T.cast(Q[b, head, q0 + i, d], "float64"), T.cast(K[b, group, k0 + j, d], "float64")
        scores[i, j] += q * key""",
            '-T.infinity("float32")': '-T.infinity("float64")',
            attention.ROUND: "",
            attention.LOAD_V: "",
            attention.GEMM_V: """\
for n in T.serial(block_n):
    for i, j in T.Parallel(block_m, head_dim):
        out[i, j] += scores[i, n] * T.cast(V[b, group, k0 + n, j], "float64")""",
        },
    ),
)
