"""How fast a kernel could be at best: the roofline (Williams, Waterman and Patterson, CACM 52(4), 2009).

    least time = max(operations / peak operations a second, bytes / peak bytes a second)

Pure arithmetic.
"""

from dataclasses import dataclass

from tilecheck.arches import Arch
from tilecheck.dtypes import dtype as dtype_named
from tilecheck.latency.monitor import GpuFacts
from tilecheck.spec import Cost


@dataclass(frozen=True)
class Roof:
    """flops: operations a second of the tensor cores, at the highest clock.
    bytes: a second, of device memory.
    cache: bytes of L2, which may keep what was written until after the kernel has ended.
    """

    flops: float
    bytes: float
    cache: int

    def least_seconds(self, cost: Cost) -> float:
        """The time that no kernel of this cost can be under while all its bytes move."""
        return max(cost.flops / self.flops, cost.bytes / self.bytes)

    def share(self, cost: Cost, seconds: float) -> float:
        """The part of the roof that a kernel of this cost reaches in `seconds`."""
        return self.least_seconds(cost) / seconds

    def impossible(self, cost: Cost, seconds: float) -> str | None:
        """Why no kernel of this cost can take `seconds`, in one line; None: it may."""
        if cost.flops / self.flops > seconds:
            return f"{cost.flops / seconds / 1e12:.4g} TFLOP/s are over the peak of {self.flops / 1e12:.4g}"
        moved = cost.bytes - self.cache
        if moved / self.bytes > seconds:
            return f"{moved / seconds / 1e9:.4g} GB/s past L2 are over the peak of {self.bytes / 1e9:.4g}"
        return None


def roof(gpu: GpuFacts, arch: Arch, dtype: str) -> Roof:
    """The roof of a GPU for products of `dtype`, which run on tensor cores (fp32 as tf32).

    Raises ValueError for a type that these rates do not cover.
    """
    if dtype_named(dtype).bytes > 4:
        raise ValueError(f"there is no roof for {dtype}: tensor cores are rated for 8 to 32 bits here")
    rate = arch.tensor_rate * 2 // dtype_named(dtype).bytes
    return Roof(gpu.multiprocessors * gpu.max_clock * rate, gpu.bandwidth, gpu.l2)
