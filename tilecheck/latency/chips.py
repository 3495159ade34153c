"""The GPU that stands for an architecture where none is at hand. Pure data.

Source: NVIDIA's data sheets and architecture papers (A100 80GB SXM, L40S, H200 SXM, B200, RTX PRO 6000
Blackwell); clocks are the boost clocks, of the B200 the one that gives its 2.25 PFLOP/s of dense bf16.
"""

from tilecheck.latency.monitor import GpuFacts

CHIPS: dict[str, GpuFacts] = {
    "sm_80": GpuFacts("NVIDIA A100-SXM4-80GB", 108, 1.41e9, 2.039e12, 40 << 20, ""),
    "sm_89": GpuFacts("NVIDIA L40S", 142, 2.52e9, 0.864e12, 96 << 20, ""),
    "sm_90a": GpuFacts("NVIDIA H200", 132, 1.98e9, 4.8e12, 50 << 20, ""),
    "sm_100a": GpuFacts("NVIDIA B200", 148, 1.86e9, 8.0e12, 126 << 20, ""),
    "sm_120a": GpuFacts("NVIDIA RTX PRO 6000 Blackwell", 188, 2.617e9, 1.792e12, 128 << 20, ""),
}
