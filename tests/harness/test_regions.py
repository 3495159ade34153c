"""Chunks cover a tensor once, and a region gathered from them is that of the whole."""

import math

import pytest
import torch

from tilecheck.regions import Region, chunks, region, starts

hypothesis = pytest.importorskip("hypothesis", reason="wants the extra: pip install -e .[test]")
st = hypothesis.strategies

SHAPES = st.lists(st.integers(0, 6), max_size=4)


@hypothesis.given(shape=SHAPES, limit=st.integers(1, 40))
@hypothesis.settings(max_examples=100, deadline=None)
def test_chunks_cover_every_element_once_in_order_and_within_the_limit(shape, limit):
    numbers = torch.arange(math.prod(shape)).reshape(shape)
    parts = [numbers[where] for where in chunks(shape, limit)]
    assert [n for part in parts for n in part.flatten().tolist()] == list(range(numbers.numel()))
    assert all(part.numel() <= limit for part in parts)


@hypothesis.given(shape=SHAPES, limit=st.integers(1, 40), seed=st.integers(0, 2**32), share=st.floats(0, 1))
@hypothesis.settings(max_examples=100, deadline=None)
def test_a_region_of_chunks_is_that_of_the_whole(shape, limit, seed, share):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < share
    found = Region(tuple(shape))
    for where in chunks(shape, limit):
        found = found.plus(mask[where], starts(where, len(shape)))
    hits = mask.nonzero()
    assert found == region(mask)
    assert found.count == len(hits)
    if len(hits):
        assert found.first == tuple(hits[0].tolist())
        assert found.box == tuple((int(c.min()), int(c.max())) for c in hits.T)
