"""What facts say of a cubin against what the driver says of the same one, loaded on a GPU."""

import ctypes
from collections.abc import Callable

import pytest
import torch

from kernels import SPECS
from tilecheck.arches import arch_of_capability
from tilecheck.codegen import NoToolchain, artifacts_of, find_toolchain
from tilecheck.program import build_program
from tilecheck.spec import KernelSpec

pytestmark = [pytest.mark.gpu, pytest.mark.codegen]

# CUfunction_attribute, in the order of cuda.h.
MAX_THREADS, STATIC_SHARED, _, LOCAL, REGISTERS = range(5)


def attributes(cubin: bytes, function: str) -> Callable[[int], int]:
    """The driver's function attributes of a function of a cubin."""
    torch.zeros(1, device="cuda")  # makes the context
    driver = ctypes.CDLL("libcuda.so.1")

    def checked(code: int) -> None:
        assert code == 0, f"CUDA driver error {code}"

    module, handle = ctypes.c_void_p(), ctypes.c_void_p()
    checked(driver.cuModuleLoadData(ctypes.byref(module), cubin))
    checked(driver.cuModuleGetFunction(ctypes.byref(handle), module, function.encode()))

    def read(attribute: int) -> int:
        value = ctypes.c_int()
        checked(driver.cuFuncGetAttribute(ctypes.byref(value), attribute, handle))
        return value.value

    return read


@pytest.mark.parametrize("spec", SPECS, ids=[spec.name for spec in SPECS])
def test_facts_are_those_of_the_driver(spec: KernelSpec) -> None:
    try:
        find_toolchain()
    except NoToolchain as error:
        pytest.skip(str(error))
    target = arch_of_capability(*torch.cuda.get_device_capability())
    found = artifacts_of(build_program(spec, spec.cases_of_code[0], target))
    (function,) = found.lowered.kernels
    read = attributes(found.cubin, function)
    assert read(REGISTERS) == found.facts.registers
    assert read(STATIC_SHARED) == found.facts.static_shared
    assert read(LOCAL) == found.facts.stack
    assert read(MAX_THREADS) >= found.facts.threads
