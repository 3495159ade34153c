"""The kernels that are checked, in the order in which they are read and reported."""

from kernels import flash_attention, matmul, matmul_bias_gelu, softmax, vector_add

SPECS = (vector_add.SPEC, matmul.SPEC, matmul_bias_gelu.SPEC, softmax.SPEC, flash_attention.SPEC)
