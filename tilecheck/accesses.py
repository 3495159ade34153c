"""Which tensors a program reads and which it writes, read off its IR."""

from typing import Any

# Position of the operands that an operator writes; its other regions are read. `accumulates` also reads them.
_WRITES: dict[str, tuple[int, ...]] = {
    "copy": (1,),
    "async_copy": (1,),
    "tma_copy": (1,),
    "im2col": (1,),
    "transpose": (1,),
    "fill": (0,),
    "cumsum": (1,),
    "cummax": (1,),
    "reduce": (1,),
    "finalize_reducer_v2": (1,),
}
_ACCUMULATES: dict[str, tuple[int, ...]] = {
    "gemm": (2,),
    "wgmma_gemm": (2,),
    "gemm_sp": (3,),
    "atomicadd": (1,),
    "atomicmax": (1,),
    "atomicmin": (1,),
}


def operands_written(operator: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions of the operands that a tile operator writes, and of those that it reads and writes.

    operator: its name without `tl.tileop.`.
    """
    return _WRITES.get(operator, ()), _ACCUMULATES.get(operator, ())


def global_accesses(prim_func: Any) -> tuple[set[Any], set[Any]]:
    """(written, read): data variables of the buffers that a program stores to and loads from; atomics do
    both.
    """
    from tilelang import tvm

    written: set[Any] = set()
    loads: list[Any] = []

    def drop(load: Any) -> None:
        # Children come before their parents: the load under a written region was counted as a read just now.
        for i in range(len(loads) - 1, -1, -1):
            if loads[i].same_as(load):
                del loads[i]
                return

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.BufferStore):
            written.add(node.buffer.data)
        elif isinstance(node, tvm.tirx.BufferLoad):
            loads.append(node)
        elif isinstance(node, tvm.tirx.Call) and isinstance(node.op, tvm.ir.Op):
            name = node.op.name.rpartition(".")[2]
            if name == "access_ptr":
                mask = int(node.args[2])
                if mask & 2:
                    written.add(node.args[0].buffer.data)
                if not mask & 1:
                    drop(node.args[0])
            for i in (*_WRITES.get(name, ()), *_ACCUMULATES.get(name, ())):
                load = node.args[i].args[0]
                written.add(load.buffer.data)
                if i in _WRITES.get(name, ()):
                    drop(load)

    tvm.tirx.stmt_functor.post_order_visit(prim_func.body, visit)
    return written, {load.buffer.data for load in loads}
