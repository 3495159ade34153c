"""All mutants, and the right kernels that must not be taken for one."""

from tests.harness.mutants import flash_attention, matmul, matmul_bias_gelu, softmax, vector_add
from tests.harness.mutants.engine import Mutant
from tests.harness.mutants.equivalents import EQUIVALENTS

__all__ = ["EQUIVALENTS", "KERNELS", "MUTANTS", "named"]

_TABLES = (vector_add, matmul, matmul_bias_gelu, softmax, flash_attention)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for table in _TABLES for mutant in table.MUTANTS)
KERNELS: tuple[str, ...] = tuple(dict.fromkeys(mutant.kernel for mutant in MUTANTS))


def named(name: str) -> Mutant:
    """The mutant of this name, `kernel/id`."""
    return next(mutant for mutant in MUTANTS if mutant.name == name)
