"""The bounds of our kernels let every right way to compute them pass, and no wrong one.

A way is an algorithm in plain torch, on the CPU: its tiles, the order and the precision in which it adds, and
what it may do wrong. It gets what the kernel gets, the inputs drawn for one of its cases, and ends before the
store, so that what it takes of the error terms shows even where the store would hide it.
"""

import functools
import math
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

import pytest
import torch
from torch.nn.functional import pad

import kernels
from tilecheck.arches import arch
from tilecheck.conformance import references_of
from tilecheck.inputs import draw_inputs, torch_dtype
from tilecheck.oracle import Verdict, judge
from tilecheck.program import build_program
from tilecheck.spec import Case, call_by_name

SPECS = {spec.name: spec for spec in kernels.SPECS}
SEEDS = (0, 1)
LOG2E = math.log2(math.e)


@functools.cache
def program_of(kernel: str, case: Case):
    return build_program(SPECS[kernel], case, arch("sm_90a"))


@functools.cache
def drawn(kernel: str, case: Case, seed: int):
    """What a way may ask for by name, and the reference of it."""
    program = program_of(kernel, case)
    inputs = draw_inputs(program, seed)
    (reference,) = references_of(program, inputs).values()
    return {**SPECS[kernel].names(case), **inputs}, reference


@functools.cache
def verdict(kernel: str, case: Case, way, seed: int, *, stored: bool = True) -> Verdict:
    names, reference = drawn(kernel, case, seed)
    out = call_by_name(way, names)
    return judge(out.to(torch_dtype(case.dtype) if stored else torch.float32), reference)


# How numbers are kept.


def to_fp16(x):
    return x.half().float()


def to_bf16(x):
    return x.bfloat16().float()


def to_fp32(x):
    return x.float()


def exactly(x):
    return x


def cut_to_fp32(x):
    """As tensor cores keep a sum: rounded towards zero."""
    near = x.float()
    return torch.where(near.abs() > x.abs(), torch.nextafter(near, torch.zeros_like(near)), near)


def cut_to_tf32(x):
    """As tensor cores read fp32: without the last 13 bits. Narrower types stay as they are."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32) if x.dtype == torch.float32 else x


def round_to_tf32(x):
    return cut_to_tf32((x.view(torch.int32) + 0x1000).view(torch.float32)) if x.dtype == torch.float32 else x


# How an axis is cut into tiles, and in which order they are taken.


def every(step):
    return lambda extent: [slice(k, min(k + step, extent)) for k in range(0, extent, step)]


by_8, by_16, by_64, by_128, by_1024 = (every(step) for step in (8, 16, 64, 128, 1024))


def backwards(step):
    return lambda extent: every(step)(extent)[::-1]


def at_once(extent):
    return [slice(extent)]


def without_the_last(extent):
    return [slice(extent - 1)]


def without_the_first(extent):
    return [slice(1, extent)]


def whole(step):
    """Without the tail."""
    return lambda extent: every(step)(extent // step * step)


# The ways; the defaults of their knobs are right.


def product(a, b, tiles, kept, read=cut_to_tf32):
    a, b = read(a).double(), read(b).double()
    total = torch.zeros(*a.shape[:-1], b.shape[-1])
    for k in tiles(a.shape[-1]):
        total = kept(total.double() + a[..., k] @ b[..., k, :])
    return total


def matmul(A, B, trans_a, trans_b, tiles=by_16, kept=to_fp32, read=cut_to_tf32):
    return product(A.T if trans_a else A, B.T if trans_b else B, tiles, kept, read)


def gelu(x, bias, approximate):
    """As the kernel has it; torch's own in fp32 is off by up to 6 * 2^-24 of x."""
    x = x + bias
    if approximate == "tanh":
        return x * (0.5 + 0.5 * torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return x * (0.5 + 0.5 * torch.erf(math.sqrt(0.5) * x))


def matmul_bias_gelu(A, B, bias, approximate, tiles=by_16, kept=to_fp32, read=cut_to_tf32, epilogue=gelu):
    return epilogue(product(A, B, tiles, kept, read), bias, approximate)


def softmax(X, tiles=by_1024, kept=to_fp32, add=torch.sum, rescaled=True):
    X = kept(X)
    top = torch.full((len(X), 1), torch.finfo(torch.float32).min, dtype=X.dtype)
    total = torch.zeros_like(top)
    for columns in tiles(X.shape[1]):
        old_top, top = top, torch.maximum(top, X[:, columns].amax(1, keepdim=True))
        if rescaled:
            total = total * torch.exp2((old_top - top) * LOG2E)
        total = total + add(torch.exp2((X[:, columns] - top) * LOG2E), 1, keepdim=True)
    return torch.exp2((X - top) * LOG2E) / total


def bottom_right(query, q_len, k_len):
    """How many keys a query sees under a causal mask."""
    return query + 1 + k_len - q_len


def attention(
    Q,
    K,
    V,
    causal,
    tiles=by_64,
    kept=to_fp32,
    total_kept=exactly,
    scores_kept=exactly,
    weights_kept=None,
    mask=bottom_right,
    scale=None,
    rescaled=True,
    blind=0.0,
):
    q_len, k_len = Q.shape[2], K.shape[2]
    K, V = (x.repeat_interleave(Q.shape[1] // K.shape[1], dim=1) for x in (K, V))
    seen = mask(torch.arange(q_len), q_len, k_len) if causal else torch.full((q_len,), k_len)
    scale = (scale or Q.shape[3] ** -0.5) * LOG2E
    top = torch.full((*Q.shape[:3], 1), torch.finfo(torch.float32).min)
    total, out = torch.zeros_like(top), torch.zeros(Q.shape)
    for keys in tiles(k_len):
        scores = scores_kept(product(Q, K[:, :, keys].mT, by_16, to_fp32))
        scores.masked_fill_(torch.arange(k_len)[keys] >= seen[:, None], -math.inf)
        old_top, top = top, torch.maximum(top, scores.amax(3, keepdim=True))
        weights = torch.exp2(scores * scale - top * scale)
        shrink = torch.exp2((old_top - top) * scale) if rescaled else 1.0
        total = total_kept(total * shrink + weights.sum(3, keepdim=True))
        weights = weights_kept(weights) if weights_kept else weights.to(Q.dtype)
        out = kept((out * shrink).double() + weights.double() @ V[:, :, keys].double())
    return torch.where(total == 0, blind, out / total)


RIGHT = {
    "vector_add": (
        lambda A, B: A + B,
        lambda A, B: A.float() + B.float(),
    ),
    "matmul": (
        matmul,
        partial(matmul, tiles=at_once, kept=exactly),
        partial(matmul, kept=cut_to_fp32),
        partial(matmul, tiles=backwards(64), read=round_to_tf32),
        partial(matmul, tiles=by_8, read=exactly),
    ),
    "matmul_bias_gelu": (
        matmul_bias_gelu,
        partial(matmul_bias_gelu, tiles=at_once, kept=exactly),
        partial(matmul_bias_gelu, kept=cut_to_fp32),
        partial(matmul_bias_gelu, tiles=backwards(64), read=round_to_tf32),
    ),
    "softmax": (
        softmax,
        partial(softmax, tiles=at_once),
        partial(softmax, tiles=backwards(4096)),
        lambda X: torch.softmax(X.float(), 1),
        lambda X: torch.softmax(X.double(), 1),
    ),
    "flash_attention": (
        attention,
        partial(attention, tiles=at_once, kept=cut_to_fp32),
        partial(attention, tiles=backwards(32)),
        partial(attention, tiles=by_128, weights_kept=to_fp32),
    ),
}


def costliest_of_each_draw(kernel: str) -> list[Case]:
    """For each draw and dtype the costliest case that takes a moment."""
    chosen: dict[tuple[str, str], Case] = {}
    for case in sorted(SPECS[kernel].cases, key=lambda case: SPECS[kernel].cost_of(case).flops):
        if SPECS[kernel].cost_of(case).flops < 2e7 and SPECS[kernel].cost_of(case).bytes < 2**19:
            chosen[case.draw, case.dtype] = case
    return list(chosen.values())


@pytest.mark.parametrize(
    ("kernel", "case"),
    [
        pytest.param(kernel, case, id=SPECS[kernel].test_id(case))
        for kernel in RIGHT
        for case in costliest_of_each_draw(kernel)
    ],
)
def test_every_right_way_passes_with_room_to_spare(kernel, case):
    for seed in SEEDS:
        for way in RIGHT[kernel]:
            found = verdict(kernel, case, way, seed)
            assert found.ok, found.lines(str(way))
            assert found.exact or verdict(kernel, case, way, seed, stored=False).terms_used < 0.7


@pytest.mark.parametrize("kernel", [kernel for kernel in RIGHT if kernel != "vector_add"])
def test_the_terms_are_not_much_larger_than_what_a_right_way_takes(kernel):
    cases = costliest_of_each_draw(kernel)
    taken = [
        verdict(kernel, case, way, seed, stored=False).terms_used
        for case in cases
        for way in RIGHT[kernel]
        for seed in SEEDS
    ]
    assert max(taken) > 0.1


# What may be wrong, beside the knobs.


def other_form(x, bias, approximate):
    return gelu(x, bias, "none" if approximate == "tanh" else "tanh")


def no_gelu(x, bias, approximate):
    return x + bias


def no_bias(x, bias, approximate):
    return gelu(x, 0, approximate)


def next_bias(x, bias, approximate):
    return gelu(x, bias.roll(1), approximate)


def bias_along_m(x, bias, approximate):
    return gelu(x, bias[:, None], approximate)


def bias_after_gelu(x, bias, approximate):
    return gelu(x, 0, approximate) + bias


def fp16_before_gelu(x, bias, approximate):
    return gelu(to_fp16(x + bias), 0, approximate)


def bf16_before_gelu(x, bias, approximate):
    return gelu(to_bf16(x + bias), 0, approximate)


def add_by_halves(x, axis, keepdim):
    """In fp16, pairs, then pairs of pairs: as the threads of a block add."""
    x = x.half()
    while x.shape[1] > 1:
        x = pad(x, (0, x.shape[1] % 2))
        x = x[:, ::2] + x[:, 1::2]
    return x.float()


def softmax_without_maximum(X):
    weights = torch.exp(X.float())
    return weights / weights.sum(1, keepdim=True)


def softmax_of_padded_rows(X):
    return softmax(pad(X, (0, 1)))[:, :-1]


def padded_keys(Q, K, V, causal):
    return attention(Q, pad(K, (0, 0, 0, 1)), pad(V, (0, 0, 0, 1)), causal)


def next_kv_head(Q, K, V, causal):
    return attention(Q, K.roll(1, 1), V.roll(1, 1), causal)


def interleaved_kv_heads(Q, K, V, causal):
    repeats = Q.shape[1] // K.shape[1]
    return attention(Q, K.repeat(1, repeats, 1, 1), V.repeat(1, repeats, 1, 1), causal)


def one_more(*lengths):
    return bottom_right(*lengths) + 1


def one_less(*lengths):
    return bottom_right(*lengths) - 1


def top_left(query, q_len, k_len):
    return query + 1


# By kernel: a fault, a way that has it, and patterns of the cases that have to show it. K is 4096 in the case
# square-4096, 16384 in dsv3-out.
WRONG = {
    "vector_add": (
        ("last-lost", lambda A, B: pad((A + B)[:-1], (0, 1)), "one-* block-over-*"),
        ("off-by-one", lambda A, B: A + B.roll(1), "seven-* block-* prime-*"),
        ("rounded-to-zero", lambda A: A, "halfway-*"),
    ),
    "matmul": (
        ("fp16-sum", partial(matmul, kept=to_fp16), "square-4096-*16 dsv3-out-* counting-* cancelling-fp16"),
        (
            "fp16-sum-of-tiles",
            partial(matmul, kept=to_fp16, tiles=by_64),
            "square-4096-fp16 counting-fp*",
        ),
        ("bf16-sum", partial(matmul, kept=to_bf16), "square-4096-* dsv3-out-* counting-* cancelling-*"),
        ("last-k-lost", partial(matmul, tiles=without_the_last), "square-4096-* dsv3-out-* k-o* one-hot-*"),
        ("first-k-lost", partial(matmul, tiles=without_the_first), "one-tile-* counting-* one-hot-*"),
        ("tail-of-k-lost", partial(matmul, tiles=whole(64)), "k-over-* all-over-* ??-tails-*"),
        ("fp32-as-bf16", partial(matmul, read=to_bf16), "one-tile-fp32 cancelling-fp32"),
    ),
    "matmul_bias_gelu": (
        ("fp16-sum", partial(matmul_bias_gelu, kept=to_fp16), "square-4096-*16 dip-*fp16 one-tile-*fp16"),
        ("last-k-lost", partial(matmul_bias_gelu, tiles=without_the_last), "square-4096-* one-tile-* dip-*"),
        ("no-bias", partial(matmul_bias_gelu, epilogue=no_bias), "one-tile-* bias-only-*"),
        ("next-bias", partial(matmul_bias_gelu, epilogue=next_bias), "one-tile-* bias-only-*"),
        ("bias-along-m", partial(matmul_bias_gelu, epilogue=bias_along_m), "one-tile-*"),
        ("bias-after-gelu", partial(matmul_bias_gelu, epilogue=bias_after_gelu), "one-tile-* bias-only-*"),
        ("other-form", partial(matmul_bias_gelu, epilogue=other_form), "one-tile-* dip-* bias-only-*"),
        ("no-gelu", partial(matmul_bias_gelu, epilogue=no_gelu), "one-tile-* far-*"),
        (
            "fp16-before-gelu",
            partial(matmul_bias_gelu, epilogue=fp16_before_gelu),
            "one-tile-*fp16 dip-*fp16",
        ),
        (
            "bf16-before-gelu",
            partial(matmul_bias_gelu, epilogue=bf16_before_gelu),
            "one-tile-*bf16 dip-*bf16",
        ),
    ),
    "softmax": (
        ("no-maximum", softmax_without_maximum, "ten-thousand-*"),
        ("padding-counted", softmax_of_padded_rows, "last-* n-127-*"),
        ("fp16-sum", partial(softmax, add=add_by_halves), "n-1024-fp* n-5000-* integers-* cancelling-*"),
        ("not-rescaled", partial(softmax, rescaled=False), "last-online-* rising-online-*"),
        ("last-column-lost", partial(softmax, tiles=without_the_last), "last-* n-127-*"),
    ),
    "flash_attention": (
        ("last-key-lost", partial(attention, tiles=without_the_last), "last-key-* decode-*"),
        ("first-key-lost", partial(attention, tiles=without_the_first), "sink-* len-65-*"),
        ("tail-of-keys-lost", partial(attention, tiles=whole(64)), "last-key-* len-65-* batch-*"),
        ("padded-key-seen", padded_keys, "last-key-[fb]* len-17-fp16 len-65-fp16"),
        ("one-key-too-many", partial(attention, mask=one_more), "last-key-causal-* last-key-more-*"),
        ("one-key-too-few", partial(attention, mask=one_less), "last-key-causal-* last-key-more-*"),
        ("top-left", partial(attention, mask=top_left), "more-*-causal-* decode-causal-* last-key-more-*"),
        ("not-rescaled", partial(attention, rescaled=False), "rising-*"),
        ("scale-forgotten", partial(attention, scale=1.0), "len-128-*"),
        ("scale-without-root", partial(attention, scale=1 / 64), "len-128-*"),
        (
            "bf16-weights",
            partial(attention, weights_kept=to_bf16),
            "len-128-*fp16 last-key-*fp16 rising-fp16",
        ),
        ("fp16-scores", partial(attention, scores_kept=to_fp16), "large-scores-fp16 last-key-fp16"),
        ("bf16-scores", partial(attention, scores_kept=to_bf16), "large-scores-bf16 last-key-bf16"),
        ("fp16-sum", partial(attention, kept=to_fp16, tiles=by_16), "sink-*"),
        ("fp16-sum-of-tiles", partial(attention, kept=to_fp16, tiles=by_128), "sink-fp16"),
        ("bf16-sum-of-tiles", partial(attention, kept=to_bf16, tiles=by_128), "sink-bf16"),
        ("fp16-sum-of-weights", partial(attention, total_kept=to_fp16), "sink-fp16"),
        ("next-kv-head", next_kv_head, "grouped-*"),
        ("interleaved-kv-heads", interleaved_kv_heads, "grouped-*"),
        ("nan-for-no-key", partial(attention, blind=math.nan), "more-queries-causal-* one-key-*"),
    ),
}


def narrowed(kernel: str, case: Case) -> Case:
    """Of a product that takes more than a moment 64 rows and columns; K stays."""
    large = SPECS[kernel].cost_of(case).flops > 1e8
    return replace(case, dims={**case.dims, "M": 64, "N": 64}) if large else case


@pytest.mark.parametrize(
    ("kernel", "case", "way"),
    [
        pytest.param(kernel, narrowed(kernel, case), way, id=f"{SPECS[kernel].test_id(case)}-{fault}")
        for kernel, faults in WRONG.items()
        for fault, way, patterns in faults
        for case in SPECS[kernel].cases
        if any(fnmatchcase(case.id, pattern) for pattern in patterns.split())
    ],
)
def test_a_wrong_way_fails(kernel, case, way):
    found = verdict(kernel, case, way, seed=0)
    assert found.budget_used > 1
    assert not found.ok
