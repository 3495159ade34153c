"""The kernels that are checked, in the order in which they are read and reported: a line for each file."""

from importlib import import_module

FAMILIES = (
    "vector_add",
    "matmul",
    "matmul_bias_gelu",
    "softmax",
    "flash_attention",
)

SPECS = tuple(import_module(f"kernels.{family}").SPEC for family in FAMILIES)
