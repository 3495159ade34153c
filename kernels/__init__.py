"""The kernels that are checked, in the order in which they are read and reported."""

from kernels import matmul, matmul_bias_gelu, vector_add

SPECS = (vector_add.SPEC, matmul.SPEC, matmul_bias_gelu.SPEC)
