"""Guarded buffers tell what was written and what was not, for every dtype."""

import pytest
import torch

from tilecheck.dtypes import DTYPES
from tilecheck.guards import ALIGNMENT, Guarded, bits, is_certain, poison_of

NAMES = list(DTYPES)
CERTAIN = [n for n in NAMES if is_certain(getattr(torch, n))]


def guarded(name, shape=(6, 10), **kwargs):
    return Guarded(shape, getattr(torch, name), **kwargs)


def beyond(buffer, offset):
    """The element `offset` past the start of the tensor's first one, through the memory around it."""
    tensor = buffer.tensor
    return bits(tensor).as_strided((1,), (1,), tensor.storage_offset() + offset)


@pytest.mark.parametrize("name", NAMES)
def test_a_new_buffer_is_unwritten_and_undamaged(name):
    buffer = guarded(name)
    assert buffer.tensor.shape == (6, 10)
    assert buffer.tensor.is_contiguous()
    assert buffer.tensor.data_ptr() % ALIGNMENT == 0
    assert buffer.unwritten().count == 60
    assert buffer.damage() == []


@pytest.mark.parametrize("name", NAMES)
def test_what_was_not_written_is_found(name):
    buffer = guarded(name)
    buffer.tensor[:3] = 1
    buffer.tensor[3, :7] = 0
    left = buffer.unwritten()
    assert left.count == 23
    assert left.first == (3, 7)
    assert str(left) == "first at [3, 7]; they lie in rows 3..5, columns 0..9 (23 of 30 there)"


@pytest.mark.parametrize("name", CERTAIN)
def test_arithmetic_and_conversion_never_give_the_poison(name):
    torch_dtype = getattr(torch, name)
    if torch_dtype == torch.bool:
        results = torch.tensor([True, False])
    else:
        wild = torch.tensor(
            [float("nan"), -float("nan"), float("inf"), -float("inf"), 0.0, 1e300], dtype=torch.float64
        )
        single = wild.float()
        results = torch.cat(
            [
                wild.to(torch_dtype),
                single.to(torch_dtype),
                (single - single).to(torch_dtype),
                (single * 0).to(torch_dtype),
                single.half().to(torch_dtype),
                buffer_sum(torch_dtype).to(torch_dtype),
            ]
        )
    assert not (bits(results) == poison_of(torch_dtype)).any()


def buffer_sum(torch_dtype):
    """Poison that went through arithmetic."""
    poison = Guarded((4,), torch_dtype).tensor
    return poison.float() + 1.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("place", "told"),
    [
        (60, "1 element written past its end, the nearest 1 past the last one"),
        (63, "1 element written past its end, the nearest 4 past the last one"),
        (-1, "1 element written before its start, the nearest 1 before it"),
        (-10, "1 element written before its start, the nearest 10 before it"),
    ],
)
def test_a_write_outside_is_found(name, place, told):
    buffer = guarded(name)
    beyond(buffer, place).zero_()
    assert buffer.damage() == [told]


@pytest.mark.parametrize(
    ("shape", "last"), [((2, 3000), 3000), ((70000,), 70000), ((5, 3), 1024), ((), 1024)]
)
def test_a_band_is_a_row_and_at_least_4_kib(shape, last):
    buffer = guarded("float32", shape)
    end = buffer.tensor.numel()
    beyond(buffer, end + last - 1).zero_()
    beyond(buffer, -last).zero_()
    assert len(buffer.damage()) == 2


@pytest.mark.parametrize("name", NAMES)
def test_changed_inputs_are_found_even_where_only_bits_differ(name):
    buffer = guarded(name)
    before = torch.zeros(6, 10).to(getattr(torch, name))
    buffer.fill(before)
    assert buffer.changed(before).count == 0
    bits(buffer.tensor)[2, 4] = 1
    assert str(buffer.changed(before)) == "at [2, 4]"


def test_nan_and_negative_zero_survive_filling():
    values = torch.tensor([float("nan"), -0.0, float("inf")])
    buffer = guarded("float32", (3,))
    buffer.fill(values)
    assert buffer.changed(values).count == 0
    buffer.tensor[1] = 0.0
    assert buffer.changed(values).first == (1,)


def test_gaps_between_strided_rows_are_guarded():
    buffer = guarded("float16", (4, 10), strides=(16, 1))
    assert buffer.tensor.stride() == (16, 1)
    buffer.tensor.fill_(2.0)
    assert buffer.damage() == []
    assert buffer.unwritten().count == 0
    beyond(buffer, 16 + 12).zero_()
    assert buffer.damage() == ["1 element written between its rows, the first at offset 28"]


@pytest.mark.parametrize("shape", [(0,), (0, 7), (7, 0), (2, 0, 3)])
def test_a_tensor_without_elements(shape):
    buffer = guarded("bfloat16", shape)
    assert buffer.tensor.shape == shape
    assert buffer.damage() == []
    assert buffer.unwritten().count == 0
    beyond(buffer, 0).zero_()
    assert buffer.damage() == ["1 element written past its end, the nearest 1 past the last one"]


def test_an_address_may_be_asked_to_be_misaligned():
    buffer = guarded("float16", misaligned=2)
    assert buffer.tensor.data_ptr() % ALIGNMENT == 2
    assert buffer.damage() == []


@pytest.mark.parametrize(
    ("kwargs", "told"),
    [
        ({"strides": (-1, 1)}, r"strides \[-1, 1\] do not fit shape \[6, 10\]"),
        ({"strides": (1,)}, r"strides \[1\] do not fit"),
        ({"strides": (1, 1)}, r"strides \[1, 1\] of shape \[6, 10\] overlap"),
        ({"misaligned": 3}, "3 bytes off is no multiple of the 4"),
    ],
)
def test_impossible_layouts_are_refused(kwargs, told):
    with pytest.raises(ValueError, match=told):
        guarded("float32", **kwargs)
