"""Blocks of a cluster: what they hand each other through shared memory, and what nothing orders."""

import threading
import time

import pytest
import tilelang.language as T
import torch

from tilecheck.simulator import SimulationError, Unsupported, simulate


def _poisoned(*shape, dtype=torch.float32):
    return torch.full(shape, 77.0).to(dtype)


def test_blocks_of_a_cluster_exchange_rows():
    @T.prim_func
    def main(A: T.Tensor((6, 8), "float32"), B: T.Tensor((6, 8), "float32")):
        with T.Kernel(6, threads=32, cluster_dims=(3, 1, 1)) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=(bx + 1) % 3)
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])

    a, b = torch.randn(6, 8), _poisoned(6, 8)
    simulate(main, [a, b])
    assert torch.equal(b, a.reshape(2, 3, 8).roll(1, 1).reshape(6, 8))


def test_every_block_gets_the_parts_of_all_in_the_order_of_the_ranks():
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float16"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=4) as bx:
            mine = T.alloc_shared((8,), "float16")
            row = T.alloc_shared((4, 8), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            for p in T.unroll(4):
                T.copy_cluster(mine, row[T.block_rank_in_cluster(), 0:8], dst_block=p)
            T.cluster_sync()
            for r, i in T.Parallel(4, 8):
                B[bx, r * 8 + i] = row[r, i]

    a, b = torch.randn(4, 8).half(), _poisoned(4, 32)
    simulate(main, [a, b])
    assert torch.equal(b, a.float().reshape(1, 32).expand(4, 32))


def test_ranks_count_x_first_then_y_then_z():
    @T.prim_func
    def main(B: T.Tensor((2, 4, 6), "int32"), C: T.Tensor((2, 4, 6), "int32")):
        with T.Kernel(6, 4, 2, threads=32, cluster_dims=(3, 2, 2)) as (bx, by, bz):
            T.pdl_sync()
            B[bz, by, bx] = T.block_rank_in_cluster()
            C[bz, by, bx] = T.get_cluster_id(0) + 2 * T.get_cluster_id(1)

    b, c = _poisoned(2, 4, 6, dtype=torch.int32), _poisoned(2, 4, 6, dtype=torch.int32)
    simulate(main, [b, c])
    z, y, x = torch.meshgrid(torch.arange(2), torch.arange(4), torch.arange(6), indexing="ij")
    assert torch.equal(b, (x % 3 + 3 * (y % 2) + 6 * z).int())
    assert torch.equal(c, (x // 3 + 2 * (y // 2)).int())


def test_a_barrier_in_two_halves():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.cluster_arrive_relaxed()
            T.copy(A[bx, 0:8], mine)
            T.cluster_wait()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_arrive()
            T.fill(mine, 0.0)
            T.cluster_wait()
            T.copy(theirs, B[bx, 0:8])

    a, b = torch.randn(2, 8), _poisoned(2, 8)
    simulate(main, [a, b])
    assert torch.equal(b, a.flip(0))


def test_copies_that_signal_a_barrier_of_their_target():
    @T.prim_func
    def main(A: T.Tensor((3, 2, 16), "float32"), B: T.Tensor((3, 2, 16), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((16,), "float32")
            parts = T.alloc_shared((2, 16), "float32")
            arrived = T.alloc_cluster_barrier([2])
            T.pdl_sync()
            for trip in T.serial(3):
                T.copy(A[trip, bx, 0:16], mine)
                for peer in T.unroll(2):
                    T.copy_cluster(mine, parts[bx, 0:16], dst_block=peer, remote_barrier=arrived[0])
                T.mbarrier_wait_parity(arrived[0], trip % 2)
                for i in T.Parallel(16):
                    B[trip, bx, i] = parts[0, i] - 2 * parts[1, i]
                T.cluster_sync()

    a, b = torch.randn(3, 2, 16), _poisoned(3, 2, 16)
    simulate(main, [a, b])
    assert torch.equal(b, (a[:, :1] - 2 * a[:, 1:]).expand(3, 2, 16))


def test_copies_whose_barriers_order_all_that_their_senders_did_before():
    @T.prim_func
    def main(A: T.Tensor((5, 2, 16), "float32"), B: T.Tensor((5, 2, 16), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((2, 16), "float32")
            theirs = T.alloc_shared((2, 16), "float32")
            arrived = T.alloc_cluster_barrier([1, 1])
            T.pdl_sync()
            for k in T.serial(5):
                T.copy(A[k, bx, 0:16], mine[k % 2, 0:16])
                T.copy_cluster(
                    mine[k % 2, 0:16], theirs[k % 2, 0:16], dst_block=1 - bx, remote_barrier=arrived[k % 2]
                )
                T.mbarrier_wait_parity(arrived[k % 2], k // 2 % 2)
                for i in T.Parallel(16):
                    B[k, bx, i] = theirs[k % 2, i]
            T.cluster_sync()

    a, b = torch.randn(5, 2, 16), _poisoned(5, 2, 16)
    simulate(main, [a, b])
    assert torch.equal(b, a.flip(1))


def test_a_copy_to_no_block_is_one_within_the_block():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            again = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.copy_cluster(mine, again, dst_block=-1)
            T.copy(again, B[bx, 0:8])

    a, b = torch.randn(2, 8), _poisoned(2, 8)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_padding_that_is_sent_along_stays_unwritten(blames):
    @T.prim_func
    def main(
        A: T.Tensor((2, 4, 8), "float32"), B: T.Tensor((2, 4, 8), "float32"), C: T.Tensor((2,), "float32")
    ):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((4, 10), "float32")
            theirs = T.alloc_shared((4, 10), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:4, 0:8], mine[0:4, 0:8])
            T.fill(theirs, 1.0)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_sync()
            T.copy(theirs[0:4, 0:8], B[bx, 0:4, 0:8])
            C[bx] = theirs[2, 9]  # blamed

    a, b = torch.randn(2, 4, 8), _poisoned(2, 4, 8)
    blames(main, [a, b, _poisoned(2)], "unwritten read", "theirs[2, 9]")
    assert torch.equal(b, a.flip(0))


def test_memory_of_the_cluster_before_does_not_count(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.cluster_sync()
            T.copy(A[bx, 0:8], mine)
            if bx < 2:
                T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])  # blamed

    message = blames(main, [torch.randn(4, 8), _poisoned(4, 8)], "unwritten read", "theirs[0]")
    assert "block (2)" in message


def test_the_barrier_of_a_cluster_orders_global_memory_too():
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            T.pdl_sync()
            A[bx] = bx + 1.0
            T.cluster_sync()
            B[bx] = A[bx // 2 * 2 + 1 - bx % 2]

    a, b = _poisoned(4), _poisoned(4)
    simulate(main, [a, b])
    assert b.tolist() == [2.0, 1.0, 4.0, 3.0]


def test_the_barrier_of_a_cluster_orders_no_other_cluster(blames):
    @T.prim_func
    def main(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            T.pdl_sync()
            B[bx] = 0.0
            A[3 - bx] = bx  # blamed
            T.cluster_sync()
            B[bx] = A[bx] + B[bx]  # blamed

    blames(main, [_poisoned(4), _poisoned(4)], "race", "A", "block (2)", "another block of the same launch")


def test_a_kernel_without_clusters_is_a_cluster_of_one():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            mine = T.alloc_shared((8,), "float32")
            other = T.alloc_shared((8,), "float32")
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            T.copy_cluster(mine, other, dst_block=T.block_rank_in_cluster())
            T.copy(other, B[bx, 0:8])

    a, b = torch.randn(2, 8), _poisoned(2, 8)
    simulate(main, [a, b])
    assert torch.equal(b, a)


def test_clusters_after_a_kernel_without_and_views_of_shared_memory():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), W: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(8):
                W[bx, i] = A[bx, i] + 1.0
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            square = T.view(theirs, (2, 4))
            T.pdl_sync()
            T.copy(W[bx, 0:8], mine)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_sync()
            for i, j in T.Parallel(2, 4):
                B[bx, 4 * i + j] = square[i, j]

    a, w, b = torch.randn(2, 8), _poisoned(2, 8), _poisoned(2, 8)
    simulate(main, [a, w, b])
    assert torch.equal(b, (a + 1).flip(0))


def test_blocks_that_have_ended_are_not_waited_for():
    @T.prim_func
    def main(B: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32, cluster_dims=4) as bx:
            T.pdl_sync()
            B[bx] = bx
            if bx % 2 == 0:
                T.cluster_sync()
                B[bx] = 10 + bx

    b = _poisoned(4, dtype=torch.int32)
    simulate(main, [b])
    assert b.tolist() == [10, 1, 12, 3]


def test_prints_come_in_the_order_of_the_turns():
    @T.prim_func
    def main(B: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            T.pdl_sync()
            T.print(bx, msg="before")
            T.cluster_sync()
            T.print(bx, msg="after")
            B[bx] = bx

    said: list[str] = []
    simulate(main, [_poisoned(2, dtype=torch.int32)], tell=said.append)
    assert [line.split("'")[1] for line in said] == ["before", "before", "after", "after"]


# What nothing orders. The line that is blamed is the later one of the two, in the order of the turns.


def test_a_read_with_no_barrier_after_the_write(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.fill(theirs, 0.0)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)  # blamed
            T.copy(theirs, B[bx, 0:8])  # blamed
            T.cluster_sync()

    message = blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "race", "theirs")
    assert "another block of the cluster reads" in message
    assert "another block of the cluster writes" in message


def test_a_read_element_by_element_with_no_barrier_after_the_write(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            if bx == 0:
                T.copy_cluster(mine, theirs, dst_block=1)
                T.fill(theirs, 0.0)
            for i in T.Parallel(8):
                B[bx, i] = theirs[7 - i]  # blamed
            T.cluster_sync()

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "race", "theirs", "block (1) reads")


def test_memory_used_again_with_no_barrier_after_the_read(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 3, 8), "float32"), B: T.Tensor((2, 3, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.cluster_sync()
            for k in T.serial(3):
                T.copy(A[bx, k, 0:8], mine)
                T.copy_cluster(mine, theirs, dst_block=1 - bx)  # blamed
                T.cluster_sync()
                T.copy(theirs, B[bx, k, 0:8])  # blamed

    blames(main, [torch.randn(2, 3, 8), _poisoned(2, 3, 8)], "race", "theirs")


def test_memory_that_its_own_block_writes_as_well(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            T.fill(theirs, 0.0)  # blamed
            T.copy_cluster(mine, theirs, dst_block=1 - bx)  # blamed
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "conflicting writes", "theirs")


def test_two_blocks_that_write_one_element(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 12), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=4) as bx:
            mine = T.alloc_shared((8,), "float32")
            row = T.alloc_shared((12,), "float32")
            T.pdl_sync()
            T.fill(row, 0.0)
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            if bx < 2:
                T.copy_cluster(mine, row[4 * bx : 4 * bx + 8], dst_block=3)  # blamed
            T.cluster_sync()
            T.copy(row, B[bx, 0:12])

    blames(main, [torch.randn(4, 8), _poisoned(4, 12)], "conflicting writes", "row", "block (1) writes")


def test_two_blocks_that_write_one_element_one_after_the_other():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            row = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.fill(row, 0.0)
            T.copy(A[bx, 0:8], mine)
            for turn in T.serial(2):
                T.cluster_sync()
                if bx == turn:
                    T.copy_cluster(mine, row, dst_block=0)
            T.cluster_sync()
            T.copy(row, B[bx, 0:8])

    a, b = torch.randn(2, 8), _poisoned(2, 8)
    simulate(main, [a, b])
    assert torch.equal(b, torch.stack([a[1], torch.zeros(8)]))


def test_what_is_done_between_the_halves_of_a_barrier_is_ordered_by_the_next_one(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            T.cluster_arrive()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_wait()
            T.copy(theirs, B[bx, 0:8])  # blamed
            T.cluster_sync()

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "race", "theirs")


def test_a_relaxed_arrival_orders_nothing(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_arrive_relaxed()
            T.cluster_wait()
            T.copy(theirs, B[bx, 0:8])  # blamed
            T.cluster_sync()

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "race", "theirs")


@pytest.mark.parametrize("waits", [False, True])
def test_a_copy_that_signals_is_there_once_its_barrier_was_waited_for(waits):
    @T.prim_func
    def main(A: T.Tensor((2, 16), "float32"), B: T.Tensor((2, 16), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((16,), "float32")
            theirs = T.alloc_shared((16,), "float32")
            arrived = T.alloc_cluster_barrier([1])
            T.pdl_sync()
            T.copy(A[bx, 0:16], mine)
            T.copy_cluster(mine, theirs, dst_block=1 - bx, remote_barrier=arrived[0])
            T.cluster_sync()
            if waits:
                T.mbarrier_wait_parity(arrived[0], 0)
            T.copy(theirs, B[bx, 0:16])
            T.cluster_sync()

    a, b = torch.randn(2, 16), _poisoned(2, 16)
    if waits:
        simulate(main, [a, b])
        assert torch.equal(b, a.flip(0))
        return
    with pytest.raises(SimulationError, match="reads elements of theirs that another block") as caught:
        simulate(main, [a, b])
    assert {finding.kind for finding in caught.value.findings} == {"race", "early end"}


@pytest.mark.parametrize("options", [{}, {"tl.disable_shared_memory_reuse": True}])
def test_memory_that_another_buffer_may_have_had_before(blamed_lines, options):
    @T.prim_func
    def main(A: T.Tensor((2, 4, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            tile = T.alloc_shared((8,), "float32")
            total = T.alloc_fragment((8,), "float32")
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.cluster_sync()
            T.clear(total)
            for k in T.serial(4):
                T.copy(A[bx, k, 0:8], tile)
                for i in T.Parallel(8):
                    total[i] += tile[i]
            T.copy(total, mine)
            T.copy_cluster(mine, theirs, dst_block=1 - bx)  # blamed
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])

    a, b = torch.randn(2, 4, 8), _poisoned(2, 8)
    if options:
        simulate(main, [a, b], pass_configs=options)
        torch.testing.assert_close(b, a.sum(1).flip(0))
        return
    with pytest.raises(
        SimulationError, match="which may still use tile; TileLang may lay both in one"
    ) as caught:
        simulate(main, [a, b])
    assert [(f.kind, f.location.line) for f in caught.value.findings] == [("race", blamed_lines[0])]


def test_memory_that_another_buffer_had_before_a_barrier():
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            tile = T.alloc_shared((8,), "float32")
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            last = T.alloc_shared((8,), "float32")
            twice = T.alloc_fragment((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], tile)
            for i in T.Parallel(8):
                twice[i] = 2 * tile[i]
            T.cluster_sync()
            T.copy(twice, mine)
            T.copy_cluster(mine, theirs, dst_block=1 - bx)
            T.cluster_sync()
            T.copy(theirs, twice)
            T.copy(twice, last)
            T.copy(last, B[bx, 0:8])

    a, b = torch.randn(2, 8), _poisoned(2, 8)
    simulate(main, [a, b])
    assert torch.equal(b, 2 * a.flip(0))


# Blocks that are not there


@pytest.mark.parametrize("rank", [2, -2])
def test_a_rank_outside_the_cluster(blames, rank):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.fill(theirs, 0.0)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=rank)  # blamed
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])

    blames(
        main, [torch.randn(4, 8), _poisoned(4, 8)], "out of range", f"block {rank} of a cluster of 2 blocks"
    )


def test_the_number_of_a_block_in_the_grid_is_not_its_rank(blames):
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.fill(theirs, 0.0)
            T.copy(A[bx, 0:8], mine)
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=bx ^ 1)  # blamed
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])

    blames(
        main, [torch.randn(4, 8), _poisoned(4, 8)], "out of range", "block 3 of a cluster of 2", "block (2)"
    )


def test_a_block_that_may_not_have_begun(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.copy_cluster(mine, theirs, dst_block=1 - bx)  # blamed
            T.cluster_sync()
            T.copy(theirs, B[bx, 0:8])

    blames(main, [torch.randn(2, 8), _poisoned(2, 8)], "early write", "may not have begun")


def test_a_block_that_may_end_before_others_write_into_its_memory(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 8), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((8,), "float32")
            theirs = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.copy(A[bx, 0:8], mine)
            T.copy(mine, B[bx, 0:8])
            T.cluster_sync()
            T.copy_cluster(mine, theirs, dst_block=1 - bx)  # blamed

    blames(
        main,
        [torch.randn(2, 8), _poisoned(2, 8)],
        "early end",
        "may end before",
        "T.cluster_sync() as the last",
    )


def test_a_block_that_may_end_while_others_copy_from_its_memory(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 16), "float32"), B: T.Tensor((2, 16), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((16,), "float32")
            theirs = T.alloc_shared((16,), "float32")
            arrived = T.alloc_cluster_barrier([1])
            T.pdl_sync()
            T.copy(A[bx, 0:16], mine)
            T.copy_cluster(mine, theirs, dst_block=1 - bx, remote_barrier=arrived[0])  # blamed
            T.mbarrier_wait_parity(arrived[0], 0)
            T.copy(theirs, B[bx, 0:16])

    message = blames(main, [torch.randn(2, 16), _poisoned(2, 16)], "early end", "is copied from its memory")
    assert "block (0) may end while theirs of block (1)" in message


# Barriers


def test_a_barrier_that_too_few_copies_signal(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 16), "float32"), B: T.Tensor((2, 16), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((16,), "float32")
            theirs = T.alloc_shared((16,), "float32")
            arrived = T.alloc_cluster_barrier([2])
            T.pdl_sync()
            T.copy(A[bx, 0:16], mine)
            T.copy_cluster(mine, theirs, dst_block=1 - bx, remote_barrier=arrived[0])
            T.mbarrier_wait_parity(arrived[0], 0)  # blamed
            T.copy(theirs, B[bx, 0:16])
            T.cluster_sync()

    blames(
        main, [torch.randn(2, 16), _poisoned(2, 16)], "deadlock", "block (0) waits for ever", "too few copies"
    )


def test_blocks_that_wait_at_different_barriers(blames):
    @T.prim_func
    def main(A: T.Tensor((2, 16), "float32"), B: T.Tensor((2, 16), "float32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            mine = T.alloc_shared((16,), "float32")
            theirs = T.alloc_shared((16,), "float32")
            arrived = T.alloc_cluster_barrier([1])
            T.pdl_sync()
            T.copy(A[bx, 0:16], mine)
            if bx == 0:
                T.cluster_sync()  # blamed
                T.copy_cluster(mine, theirs, dst_block=1, remote_barrier=arrived[0])
            else:
                T.mbarrier_wait_parity(arrived[0], 0)  # blamed
                T.cluster_sync()
            B[bx, 0] = 0.0

    blames(main, [torch.randn(2, 16), _poisoned(2, 16)], "deadlock", "do not arrive", "too few copies")


def test_an_arrival_that_nothing_waits_for(blames):
    @T.prim_func
    def main(B: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            T.pdl_sync()
            B[bx] = bx
            T.cluster_arrive()
            T.cluster_sync()  # blamed

    blames(main, [_poisoned(2, dtype=torch.int32)], "barrier", "arrives twice")


def test_a_wait_without_an_arrival(blames):
    @T.prim_func
    def main(B: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=32, cluster_dims=2) as bx:
            T.pdl_sync()
            B[bx] = bx
            T.cluster_wait()  # blamed

    blames(main, [_poisoned(2, dtype=torch.int32)], "barrier", "waits without")


def test_a_barrier_that_only_some_threads_reach(refuses):
    @T.prim_func
    def main(B: T.Tensor((2, 64), "int32")):
        with T.Kernel(2, threads=64, cluster_dims=2) as bx:
            tx = T.get_thread_binding()
            T.pdl_sync()
            B[bx, tx] = bx
            if tx < 32:
                T.cluster_sync()  # blamed

    refuses(
        main, [_poisoned(2, 64, dtype=torch.int32)], "cluster_sync", "condition that differs between threads"
    )


# Launches


@pytest.mark.parametrize(
    ("grid", "dims", "words"),
    [
        ((3, 2), (2, 1, 1), "no grid of 3x2x1 blocks in clusters of 2x1x1"),
        ((8, 4), (8, 4, 1), "16 blocks at most"),
    ],
)
def test_a_launch_that_cuda_refuses(grid, dims, words):
    @T.prim_func
    def main(B: T.Tensor((8, 8), "int32")):
        with T.Kernel(*grid, threads=32, cluster_dims=dims) as (bx, by):
            T.pdl_sync()
            B[by, bx] = bx

    with pytest.raises(SimulationError, match=words) as caught:
        simulate(main, [_poisoned(8, 8, dtype=torch.int32)])
    assert [finding.kind for finding in caught.value.findings] == ["launch"]
    assert caught.value.findings[0].location.line


def test_what_stops_one_block_ends_the_others():
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(4, threads=32, cluster_dims=4) as bx:
            tx = T.get_thread_binding()
            tile = T.alloc_shared((8,), "float32")
            T.pdl_sync()
            T.cluster_sync()
            if bx == 2 and tx < 16:
                T.copy(A, tile)
            T.cluster_sync()
            B[bx] = 0.0

    before = threading.active_count()
    with pytest.raises(Unsupported, match="condition that differs between threads"):
        simulate(main, [torch.randn(8), _poisoned(4)])
    for _ in range(100):
        if threading.active_count() == before:
            break
        time.sleep(0.01)
    assert threading.active_count() == before
