"""Whole kernels in the idioms of public TileLang programs, beyond what the kernels of this suite need."""

import math

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


def _close(got, want, tolerance):
    torch.testing.assert_close(got.double(), want.double(), rtol=tolerance, atol=tolerance)


def test_rms_norm():
    M, N, block = 10, 96, 4

    @T.prim_func
    def rms_norm(
        X: T.Tensor((M, N), "bfloat16"), W: T.Tensor((N,), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")
    ):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            shared = T.alloc_shared((block, N), "bfloat16")
            x = T.alloc_fragment((block, N), "float32")
            square = T.alloc_fragment((block, N), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(X[bx * block : (bx + 1) * block, :], shared)
            T.copy(shared, x)
            for i, j in T.Parallel(block, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i in T.Parallel(block):
                total[i] = T.rsqrt(total[i] / N + 1e-6)
            for i, j in T.Parallel(block, N):
                x[i, j] *= total[i] * W[j]
            T.copy(x, Y[bx * block : (bx + 1) * block, :])

    x, w = torch.randn(M, N).bfloat16(), torch.randn(N).bfloat16()
    y = _poisoned(M, N, dtype=torch.bfloat16)
    simulate(rms_norm, [x, w, y])
    _close(y, x.double() * (x.double().pow(2).mean(1, keepdim=True) + 1e-6).rsqrt() * w.double(), 1e-2)


def test_layer_norm_with_rows_in_pieces():
    M, N, piece = 6, 100, 32

    @T.prim_func
    def layer_norm(
        X: T.Tensor((M, N), "float16"),
        G: T.Tensor((N,), "float32"),
        B: T.Tensor((N,), "float32"),
        Y: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(M, threads=64) as row:
            x = T.alloc_fragment((1, piece), "float32")
            square = T.alloc_fragment((1, piece), "float32")
            part = T.alloc_fragment((1,), "float32")
            mean = T.alloc_fragment((1,), "float32")
            scale = T.alloc_fragment((1,), "float32")
            T.clear(mean)
            T.clear(scale)
            for k in T.Pipelined(T.ceildiv(N, piece), num_stages=2):
                T.copy(X[row, k * piece], x)
                T.reduce_sum(x, part, dim=1)
                for i, j in T.Parallel(1, piece):
                    square[i, j] = x[i, j] * x[i, j]
                mean[0] += part[0]
                T.reduce_sum(square, part, dim=1)
                scale[0] += part[0]
            mean[0] = mean[0] / N
            scale[0] = T.rsqrt(scale[0] / N - mean[0] * mean[0] + 1e-5)
            for k in T.serial(T.ceildiv(N, piece)):
                for j in T.Parallel(piece):
                    column = k * piece + j
                    if column < N:
                        Y[row, column] = (X[row, column] - mean[0]) * scale[0] * G[column] + B[column]

    x, g, b = torch.randn(M, N).half(), torch.randn(N), torch.randn(N)
    y = _poisoned(M, N, dtype=torch.float16)
    simulate(layer_norm, [x, g, b, y])
    _close(y, torch.nn.functional.layer_norm(x.double(), (N,), g.double(), b.double()), 5e-3)


def test_dequantised_gemm_of_packed_int4():
    M, N, K, group = 32, 32, 64, 32
    block, step = 16, 32

    def unpack(packed, position):
        value = (packed >> (position.astype("uint8") * T.uint8(4))) & T.uint8(0xF)
        return value.astype("float16") - T.float16(8.0)

    @T.prim_func
    def dequantised(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N, K // group), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
            a = T.alloc_shared((block, step), "float16")
            packed = T.alloc_shared((block, step // 2), "uint8")
            local_packed = T.alloc_fragment((block, step // 2), "uint8")
            b = T.alloc_fragment((block, step), "float16")
            b_shared = T.alloc_shared((block, step), "float16")
            acc = T.alloc_fragment((block, block), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // step, num_stages=2):
                T.copy(A[by * block, k * step], a)
                T.copy(B[bx * block, k * step // 2], packed)
                T.copy(packed, local_packed)
                for i, j in T.Parallel(block, step):
                    b[i, j] = (
                        unpack(local_packed[i, j // 2], j % 2)
                        * scales[bx * block + i, (k * step + j) // group]
                    )
                T.copy(b, b_shared)
                T.gemm(a, b_shared, acc, transpose_B=True)
            T.copy(acc, C[by * block, bx * block])

    a = torch.randn(M, K).half()
    quantised = torch.randint(0, 16, (N, K), dtype=torch.uint8)
    scales = torch.rand(N, K // group).half()
    packed = quantised[:, ::2] | quantised[:, 1::2] << 4
    c = _poisoned(M, N, dtype=torch.float16)
    simulate(dequantised, [a, packed, scales, c])
    b = (quantised.double() - 8) * scales.double().repeat_interleave(group, 1)
    _close(c, a.double() @ b.T, 2e-2)


def test_flash_decoding_splits_the_keys_and_combines():
    heads, groups, length, dim, splits = 8, 2, 90, 32, 3
    per_group, block = heads // groups, 16
    scale = 1 / math.sqrt(dim) * 1.44269504

    @T.prim_func
    def decode(
        Q: T.Tensor((heads, dim), "float16"),
        K: T.Tensor((length, groups, dim), "float16"),
        V: T.Tensor((length, groups, dim), "float16"),
        lse: T.Tensor((heads, splits), "float32"),
        parts: T.Tensor((heads, splits, dim), "float32"),
        out: T.Tensor((heads, dim), "float16"),
    ):
        with T.Kernel(groups, splits, threads=32) as (group, split):
            q = T.alloc_shared((16, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            scores = T.alloc_fragment((16, block), "float32")
            weights = T.alloc_fragment((16, block), "float16")
            acc = T.alloc_fragment((16, dim), "float32")
            largest = T.alloc_fragment((16,), "float32")
            before = T.alloc_fragment((16,), "float32")
            correction = T.alloc_fragment((16,), "float32")
            row_sum = T.alloc_fragment((16,), "float32")
            total = T.alloc_fragment((16,), "float32")
            for i, d in T.Parallel(16, dim):
                q[i, d] = T.if_then_else(i < per_group, Q[group * per_group + i, d], 0)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(largest, -T.infinity("float32"))
            each = T.ceildiv(T.ceildiv(length, splits), block)
            for step in T.Pipelined(each, num_stages=2):
                start = (split * each + step) * block
                T.copy(K[start : start + block, group, :], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(16, block):
                    scores[i, j] = T.if_then_else(start + j < length, scores[i, j], -T.infinity("float32"))
                T.copy(largest, before)
                T.reduce_max(scores, largest, dim=1, clear=False)
                for i in T.Parallel(16):
                    correction[i] = T.exp2((before[i] - largest[i]) * scale)
                for i, j in T.Parallel(16, block):
                    scores[i, j] = T.exp2((scores[i, j] - largest[i]) * scale)
                T.reduce_sum(scores, row_sum, dim=1)
                for i in T.Parallel(16):
                    total[i] = total[i] * correction[i] + row_sum[i]
                for i, d in T.Parallel(16, dim):
                    acc[i, d] *= correction[i]
                T.copy(scores, weights)
                T.copy(V[start : start + block, group, :], v)
                T.gemm(weights, v, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(16, dim):
                if i < per_group:
                    parts[group * per_group + i, split, d] = acc[i, d] / total[i]
            for i in T.Parallel(16):
                if i < per_group:
                    lse[group * per_group + i, split] = T.log2(total[i]) + largest[i] * scale
        with T.Kernel(heads, threads=64) as head:
            largest_lse = T.alloc_local((1,), "float32")
            normaliser = T.alloc_local((1,), "float32")
            share = T.alloc_local((1,), "float32")
            combined = T.alloc_fragment((dim,), "float32")
            T.clear(normaliser)
            T.clear(combined)
            largest_lse[0] = -T.infinity("float32")
            for k in T.serial(splits):
                largest_lse[0] = T.max(largest_lse[0], lse[head, k])
            for k in T.serial(splits):
                normaliser[0] += T.exp2(lse[head, k] - largest_lse[0])
            for k in T.serial(splits):
                share[0] = T.exp2(lse[head, k] - largest_lse[0]) / normaliser[0]
                for d in T.Parallel(dim):
                    combined[d] += parts[head, k, d] * share[0]
            for d in T.Parallel(dim):
                out[head, d] = combined[d]

    q, k, v = (
        torch.randn(heads, dim).half(),
        torch.randn(length, groups, dim).half(),
        torch.randn(length, groups, dim).half(),
    )
    lse, parts, out = (
        _poisoned(heads, splits),
        _poisoned(heads, splits, dim),
        _poisoned(heads, dim, dtype=torch.float16),
    )
    simulate(decode, [q, k, v, lse, parts, out])
    keys, values = (x.double().permute(1, 0, 2).repeat_interleave(per_group, 0) for x in (k, v))
    weights = (torch.einsum("hd,hld->hl", q.double(), keys) / math.sqrt(dim)).softmax(1)
    _close(out, torch.einsum("hl,hld->hd", weights, values), 5e-3)


def test_block_sparse_gemm():
    M, N, K, block = 32, 48, 64, 16

    @T.prim_func
    def block_sparse(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        mask: T.Tensor((M // block, N // block, K // block), "bool"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=32) as (bx, by):
            a = T.alloc_shared((block, block), "float16")
            b = T.alloc_shared((block, block), "float16")
            acc = T.alloc_fragment((block, block), "float32")
            out = T.alloc_shared((block, block), "float16")
            T.use_swizzle(panel_size=10, enable=True)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                if mask[by, bx, k]:
                    T.copy(A[by * block, k * block], a)
                    T.copy(B[k * block, bx * block], b)
                    T.gemm(a, b, acc)
            T.copy(acc, out)
            T.copy(out, C[by * block, bx * block])

    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    mask = torch.rand(M // block, N // block, K // block) > 0.5
    c = _poisoned(M, N, dtype=torch.float16)
    simulate(block_sparse, [a, b, mask, c])
    blocks_a = a.double().reshape(M // block, block, K // block, block)
    blocks_b = b.double().reshape(K // block, block, N // block, block)
    want = torch.einsum("mikx,kxnj,mnk->minj", blocks_a, blocks_b, mask.double()).reshape(M, N)
    _close(c, want, 2e-2)


def test_grouped_gemm_over_ragged_batches():
    sizes, N, K, block = [20, 7, 32], 32, 32, 16
    total, count = sum(sizes), len(sizes)
    tiles = sum(-(-size // block) for size in sizes)

    @T.prim_func
    def grouped(
        A: T.Tensor((total, K), "float16"),
        B: T.Tensor((count, K, N), "float16"),
        C: T.Tensor((total, N), "float16"),
        batch_sizes: T.Tensor((count,), "int32"),
        offsets: T.Tensor((count,), "int32"),
        padded_offsets: T.Tensor((count,), "int32"),
    ):
        with T.Kernel(tiles, T.ceildiv(N, block), threads=32) as (bx, by):
            a = T.alloc_shared((block, block), "float16")
            b = T.alloc_shared((block, block), "float16")
            acc = T.alloc_fragment((block, block), "float32")
            current = T.alloc_local((1,), "int32")
            size = T.alloc_local((1,), "int32")
            row = bx * block
            current[0] = 0
            size[0] = 0
            for i in T.serial(count):
                inside = row >= padded_offsets[i]
                current[0] = T.if_then_else(inside, i, current[0])
            size[0] = batch_sizes[current[0]]
            start = offsets[current[0]] + row - padded_offsets[current[0]]
            rows = T.max(0, T.min(block, size[0] + offsets[current[0]] - start))
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[start : start + block, k * block : (k + 1) * block], a)
                T.copy(B[current[0], k * block : (k + 1) * block, by * block : (by + 1) * block], b)
                T.gemm(a, b, acc)
            for i, j in T.Parallel(block, block):
                if i < rows:
                    C[start + i, by * block + j] = acc[i, j]

    a, b = torch.randn(total, K).half(), torch.randn(count, K, N).half()
    c = _poisoned(total, N, dtype=torch.float16)
    offsets = [sum(sizes[:i]) for i in range(count)]
    padded = [sum(-(-s // block) * block for s in sizes[:i]) for i in range(count)]
    simulate(grouped, [a, b, c, *(torch.tensor(x, dtype=torch.int32) for x in (sizes, offsets, padded))])
    want = torch.cat(
        [a[o : o + s].double() @ b[i].double() for i, (o, s) in enumerate(zip(offsets, sizes, strict=True))]
    )
    _close(c, want, 2e-2)


def test_top_k_by_repeated_maxima():
    tokens, experts, k, block = 10, 16, 4, 4

    @T.prim_func
    def top_k(
        logits: T.Tensor((tokens, experts), "float32"),
        gates: T.Tensor((tokens, k), "float32"),
        indices: T.Tensor((tokens, k), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
            scores = T.alloc_fragment((block, experts), "float32")
            largest = T.alloc_fragment((block,), "float32")
            where = T.alloc_fragment((block, experts), "int32")
            chosen = T.alloc_fragment((block,), "int32")
            T.copy(logits[bx * block, 0], scores)
            for step in T.serial(k):
                T.reduce_max(scores, largest, dim=1, clear=True)
                for i, j in T.Parallel(block, experts):
                    where[i, j] = T.if_then_else(largest[i] == scores[i, j], j, -1)
                T.reduce_max(where, chosen, dim=1, clear=True)
                for i, j in T.Parallel(block, experts):
                    scores[i, j] = T.if_then_else(j == chosen[i], -10000.0, scores[i, j])
                for i in T.Parallel(block):
                    if bx * block + i < tokens:
                        gates[bx * block + i, step] = largest[i]
                        indices[bx * block + i, step] = chosen[i]

    logits = torch.randn(tokens, experts)
    gates, indices = _poisoned(tokens, k), _poisoned(tokens, k, dtype=torch.int32)
    simulate(top_k, [logits, gates, indices])
    want = logits.topk(k, 1)
    assert torch.equal(gates, want.values)
    assert torch.equal(indices, want.indices.int())


def test_cast_to_float8_with_a_scale_for_each_group():
    M, N, group, block = 6, 256, 128, 4

    @T.prim_func
    def to_float8(
        X: T.Tensor((M, N), "float32"),
        Y: T.Tensor((M, N), "float8_e4m3fn"),
        scales: T.Tensor((M, N // group), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block), N // group, threads=128) as (row, column):
            y = T.alloc_fragment((block, group), "float32")
            largest = T.alloc_fragment((block,), "float32")
            scale = T.alloc_fragment((block,), "float32")
            quantised = T.alloc_fragment((block, group), "float8_e4m3fn")
            T.copy(X[row * block : (row + 1) * block, column * group : (column + 1) * group], y)
            T.reduce_absmax(y, largest, dim=1)
            for i in T.Parallel(block):
                largest[i] = T.max(largest[i], 1e-4)
                scale[i] = largest[i] / 448.0
            for i, j in T.Parallel(block, group):
                quantised[i, j] = T.clamp(y[i, j] / scale[i], -448.0, 448.0)
            for i in T.Parallel(block):
                if row * block + i < M:
                    scales[row * block + i, column] = scale[i]
            T.copy(quantised, Y[row * block : (row + 1) * block, column * group : (column + 1) * group])

    x = torch.randn(M, N) * 50
    y, scales = torch.zeros(M, N).to(torch.float8_e4m3fn), _poisoned(M, N // group)
    simulate(to_float8, [x, y, scales])
    groups = x.reshape(M, N // group, group)
    want_scales = groups.abs().amax(2).clamp(min=1e-4) / 448
    assert torch.equal(scales, want_scales)
    want = (groups / want_scales[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn).reshape(M, N)
    assert torch.equal(y.view(torch.uint8), want.view(torch.uint8))


def test_chunked_linear_attention_with_decay():
    length, heads, dim, chunk = 48, 2, 16, 16

    @T.prim_func
    def chunked(
        Q: T.Tensor((length, heads, dim), "float32"),
        K: T.Tensor((length, heads, dim), "float32"),
        V: T.Tensor((length, heads, dim), "float32"),
        gates: T.Tensor((length, heads), "float32"),
        out: T.Tensor((length, heads, dim), "float32"),
    ):
        with T.Kernel(heads, threads=32) as head:
            q = T.alloc_shared((chunk, dim), "float32")
            k = T.alloc_shared((chunk, dim), "float32")
            v = T.alloc_shared((chunk, dim), "float32")
            g = T.alloc_shared((chunk,), "float32")
            scores = T.alloc_fragment((chunk, chunk), "float32")
            scores_shared = T.alloc_shared((chunk, chunk), "float32")
            state = T.alloc_fragment((dim, dim), "float32")
            state_shared = T.alloc_shared((dim, dim), "float32")
            acc = T.alloc_fragment((chunk, dim), "float32")
            T.clear(state)
            for step in T.Pipelined(length // chunk, num_stages=1):
                T.copy(Q[step * chunk : (step + 1) * chunk, head, :], q)
                T.copy(K[step * chunk : (step + 1) * chunk, head, :], k)
                T.copy(V[step * chunk : (step + 1) * chunk, head, :], v)
                T.copy(gates[step * chunk : (step + 1) * chunk, head], g)
                T.cumsum(g, dim=0)
                T.copy(state, state_shared)
                T.clear(scores)
                T.gemm(q, k, scores, transpose_B=True)
                for i, j in T.Parallel(chunk, chunk):
                    scores[i, j] = T.if_then_else(i >= j, scores[i, j] * T.exp(g[i] - g[j]), 0.0)
                T.copy(scores, scores_shared)
                for i, d in T.Parallel(chunk, dim):
                    q[i, d] = q[i, d] * T.exp(g[i])
                T.clear(acc)
                T.gemm(q, state_shared, acc)
                T.gemm(scores_shared, v, acc)
                T.copy(acc, out[step * chunk : (step + 1) * chunk, head, :])
                for i, d in T.Parallel(chunk, dim):
                    k[i, d] = k[i, d] * T.exp(g[chunk - 1] - g[i])
                for i, j in T.Parallel(dim, dim):
                    state[i, j] *= T.exp(g[chunk - 1])
                T.gemm(k, v, state, transpose_A=True)

    q, k, v = (torch.randn(length, heads, dim) * 0.3 for _ in range(3))
    gates = -torch.rand(length, heads) * 0.2
    out = _poisoned(length, heads, dim)
    simulate(chunked, [q, k, v, gates, out])
    state = torch.zeros(heads, dim, dim).double()
    want = torch.empty(length, heads, dim).double()
    for t in range(length):
        state = (
            state * gates[t].double().exp()[:, None, None]
            + k[t].double()[:, :, None] * v[t].double()[:, None, :]
        )
        want[t] = torch.einsum("hd,hde->he", q[t].double(), state)
    _close(out, want, 5e-3)


def test_selective_scan():
    length, channels, states, block = 24, 40, 4, 32

    @T.prim_func
    def scan(
        X: T.Tensor((length, channels), "float32"),
        dt: T.Tensor((length, channels), "float32"),
        A: T.Tensor((channels, states), "float32"),
        B: T.Tensor((length, states), "float32"),
        C: T.Tensor((length, states), "float32"),
        Y: T.Tensor((length, channels), "float32"),
    ):
        with T.Kernel(T.ceildiv(channels, block), threads=block) as bx:
            tx = T.get_thread_binding()
            channel = bx * block + tx
            state = T.alloc_local((states,), "float32")
            y = T.alloc_var("float32")
            T.clear(state)
            if channel >= channels:
                T.thread_return()
            for t in T.serial(length):
                y = 0.0
                for n in T.unroll(states):
                    state[n] = (
                        state[n] * T.exp(dt[t, channel] * A[channel, n])
                        + dt[t, channel] * B[t, n] * X[t, channel]
                    )
                    y += state[n] * C[t, n]
                Y[t, channel] = y

    x, dt, a = torch.randn(length, channels), torch.rand(length, channels), -torch.rand(channels, states)
    b, c, y = torch.randn(length, states), torch.randn(length, states), _poisoned(length, channels)
    simulate(scan, [x, dt, a, b, c, y])
    state = torch.zeros(channels, states).double()
    for t in range(length):
        step = dt[t].double()[:, None]
        state = state * (step * a.double()).exp() + step * b[t].double() * x[t].double()[:, None]
        _close(y[t], state @ c[t].double(), 1e-4)


def test_attention_over_selected_blocks():
    length, dim, block, chosen, heads = 64, 16, 16, 2, 16
    scale = 1 / math.sqrt(dim) * 1.44269504

    @T.prim_func
    def selected(
        Q: T.Tensor((length, heads, dim), "float16"),
        K: T.Tensor((length, dim), "float16"),
        V: T.Tensor((length, dim), "float16"),
        blocks: T.Tensor((length, chosen), "int32"),
        out: T.Tensor((length, heads, dim), "float16"),
    ):
        with T.Kernel(length, threads=32) as t:
            q = T.alloc_shared((heads, dim), "float16")
            k = T.alloc_shared((block, dim), "float16")
            v = T.alloc_shared((block, dim), "float16")
            scores = T.alloc_fragment((heads, block), "float32")
            weights = T.alloc_fragment((heads, block), "float16")
            acc = T.alloc_fragment((heads, dim), "float32")
            largest = T.alloc_fragment((heads,), "float32")
            before = T.alloc_fragment((heads,), "float32")
            row_sum = T.alloc_fragment((heads,), "float32")
            total = T.alloc_fragment((heads,), "float32")
            T.copy(Q[t, 0:heads, 0:dim], q)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(largest, -T.infinity("float32"))
            for s in T.Pipelined(chosen, num_stages=2):
                start = blocks[t, s] * block
                if start <= t and start >= 0:
                    T.copy(K[start : start + block, :], k)
                    T.clear(scores)
                    for i, j in T.Parallel(heads, block):
                        scores[i, j] = T.if_then_else(t >= start + j, 0, -T.infinity("float32"))
                    T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(largest, before)
                    T.reduce_max(scores, largest, dim=1, clear=False)
                    for i, j in T.Parallel(heads, block):
                        scores[i, j] = T.exp2(scores[i, j] * scale - largest[i] * scale)
                    T.reduce_sum(scores, row_sum, dim=1)
                    for i in T.Parallel(heads):
                        before[i] = T.exp2(before[i] * scale - largest[i] * scale)
                        total[i] = total[i] * before[i] + row_sum[i]
                    for i, d in T.Parallel(heads, dim):
                        acc[i, d] *= before[i]
                    T.copy(scores, weights)
                    T.copy(V[start : start + block, :], v)
                    T.gemm(weights, v, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(heads, dim):
                out[t, i, d] = acc[i, d] / total[i]

    q, k, v = (
        torch.randn(length, heads, dim).half(),
        torch.randn(length, dim).half(),
        torch.randn(length, dim).half(),
    )
    blocks = torch.full((length, chosen), -1, dtype=torch.int32)
    for t in range(length):
        picked = torch.randperm(t // block + 1)[:chosen]
        blocks[t, : len(picked)] = picked.int()
    out = _poisoned(length, heads, dim, dtype=torch.float16)
    simulate(selected, [q, k, v, blocks, out])
    for t in range(length):
        rows = [
            s * block + j for s in blocks[t].tolist() if s >= 0 for j in range(block) if s * block + j <= t
        ]
        weights = (q[t].double() @ k[rows].double().T / math.sqrt(dim)).softmax(1)
        _close(out[t], weights @ v[rows].double(), 5e-3)


def test_routing_tokens_to_experts():
    tokens, experts, k = 40, 6, 2

    @T.prim_func
    def route(
        chosen: T.Tensor((tokens, k), "int32"),
        counts: T.Tensor((experts,), "int32"),
        offsets: T.Tensor((experts + 1,), "int32"),
        cursor: T.Tensor((experts,), "int32"),
        sorted_tokens: T.Tensor((tokens * k,), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, 32), threads=32) as bx:
            tx = T.get_thread_binding()
            token = bx * 32 + tx
            if token < tokens:
                for j in T.serial(k):
                    T.atomic_add(counts[chosen[token, j]], 1)
        with T.Kernel(1, threads=32):
            shared = T.alloc_shared((experts,), "int32")
            T.copy(counts, shared)
            T.cumsum(shared, dim=0)
            offsets[0] = 0
            for e in T.Parallel(experts):
                offsets[e + 1] = shared[e]
        with T.Kernel(T.ceildiv(tokens, 32), threads=32) as bx:
            tx = T.get_thread_binding()
            token = bx * 32 + tx
            place = T.alloc_local((1,), "int32")
            if token < tokens:
                for j in T.serial(k):
                    place[0] = T.atomic_add(cursor[chosen[token, j]], 1, return_prev=True)
                    sorted_tokens[offsets[chosen[token, j]] + place[0]] = token

    chosen = torch.stack([torch.randperm(experts)[:k] for _ in range(tokens)]).int()
    counts, cursor = torch.zeros(experts, dtype=torch.int32), torch.zeros(experts, dtype=torch.int32)
    offsets, result = _poisoned(experts + 1, dtype=torch.int32), _poisoned(tokens * k, dtype=torch.int32)
    simulate(route, [chosen, counts, offsets, cursor, result])
    for expert in range(experts):
        got = sorted(result[offsets[expert] : offsets[expert + 1]].tolist())
        assert got == (chosen == expert).any(1).nonzero().flatten().tolist()


def test_elementwise_with_sizes_known_at_run_time():
    M, N = T.dynamic("M, N")
    rows, columns = 8, 16

    @T.prim_func
    def add_scaled(
        A: T.Tensor((M, N), "float16"),
        B: T.Tensor((M, N), "float16"),
        C: T.Tensor((M, N), "float16"),
        alpha: T.float32,
    ):
        with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, columns), "float16")
            b = T.alloc_shared((rows, columns), "float16")
            c_local = T.alloc_fragment((rows, columns), "float16")
            c = T.alloc_shared((rows, columns), "float16")
            T.copy(A[by * rows, bx * columns], a)
            T.copy(B[by * rows, bx * columns], b)
            for i, j in T.Parallel(rows, columns):
                c_local[i, j] = a[i, j] + b[i, j] * alpha
            T.copy(c_local, c)
            T.copy(c, C[by * rows, bx * columns])

    for m, n in ((8, 16), (9, 33), (1, 5)):
        a, b, c = torch.randn(m, n).half(), torch.randn(m, n).half(), _poisoned(m, n, dtype=torch.float16)
        simulate(add_scaled, [a, b, c, 0.5])
        _close(c, a.double() + 0.5 * b.double(), 2e-3)


def test_a_persistent_gemm():
    M, N, K, block, workers = 48, 64, 32, 16, 5

    @T.prim_func
    def persistent(
        A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((K, N), "bfloat16"), C: T.Tensor((M, N), "bfloat16")
    ):
        with T.Kernel(workers, threads=32) as worker:
            a = T.alloc_shared((block, block), "bfloat16")
            b = T.alloc_shared((block, block), "bfloat16")
            acc = T.alloc_fragment((block, block), "float32")
            out = T.alloc_shared((block, block), "bfloat16")
            for by, bx in T.Persistent([T.ceildiv(M, block), T.ceildiv(N, block)], workers, worker):
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                    T.copy(A[by * block, k * block], a)
                    T.copy(B[k * block, bx * block], b)
                    T.gemm(a, b, acc)
                T.copy(acc, out)
                T.copy(out, C[by * block, bx * block])

    a, b, c = (
        torch.randn(M, K).bfloat16(),
        torch.randn(K, N).bfloat16(),
        _poisoned(M, N, dtype=torch.bfloat16),
    )
    simulate(persistent, [a, b, c])
    _close(c, a.double() @ b.double(), 3e-2)


@pytest.mark.parametrize("length", [64, 128])
def test_backward_of_a_row_softmax(length):
    M, block = 12, 8

    @T.prim_func
    def backward(
        P: T.Tensor((M, length), "float16"),
        dP: T.Tensor((M, length), "float16"),
        dS: T.Tensor((M, length), "float16"),
    ):
        with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
            p = T.alloc_fragment((block, length), "float32")
            dp = T.alloc_fragment((block, length), "float32")
            product = T.alloc_fragment((block, length), "float32")
            delta = T.alloc_fragment((block,), "float32")
            T.copy(P[bx * block : (bx + 1) * block, :], p)
            T.copy(dP[bx * block : (bx + 1) * block, :], dp)
            for i, j in T.Parallel(block, length):
                product[i, j] = p[i, j] * dp[i, j]
            T.reduce_sum(product, delta, 1)
            for i, j in T.Parallel(block, length):
                dp[i, j] = p[i, j] * (dp[i, j] - delta[i])
            T.copy(dp, dS[bx * block : (bx + 1) * block, :])

    p, dp = torch.randn(M, length).softmax(1).half(), torch.randn(M, length).half()
    ds = _poisoned(M, length, dtype=torch.float16)
    simulate(backward, [p, dp, ds])
    wide_p, wide_dp = p.double(), dp.double()
    _close(ds, wide_p * (wide_dp - (wide_p * wide_dp).sum(1, keepdim=True)), 1e-3)
